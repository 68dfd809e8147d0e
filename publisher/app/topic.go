package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// propertiesTimeout bounds reading the topic's properties, which only tune the batching.
const propertiesTimeout = 5 * time.Second

// batching returns the policy to begin with. If it is auto and the properties of the topic
// cannot be read, the dispatcher finds the policy by trying.
func batching(ctx context.Context, configured string, topic publish.TopicReader, logger zerolog.Logger) (publish.Batching, error) {
	policy, err := publish.ParseBatching(configured)
	if err != nil || policy != publish.BatchingAuto {
		return policy, err
	}
	ctx, cancel := context.WithTimeout(ctx, propertiesTimeout)
	defer cancel()
	properties, err := topic.TopicProperties(ctx)
	if err != nil {
		policy = policy.Resolve(nil)
		logger.Info().AnErr("reason", err).Str("batching", string(policy)).
			Msg("topic properties not read; trying batches and adapting to the answers. Set PENSTOCK_BATCHING to avoid the attempts")
		return policy, nil
	}
	policy = policy.Resolve(&properties)
	logger.Info().Bool("partitioned", properties.Partitioned).Bool("duplicateDetection", properties.DuplicateDetection).
		Str("batching", string(policy)).Msg("topic properties read")
	return policy, nil
}

// topicAdmin is a [publish.TopicReader] that asks the administration API.
type topicAdmin struct {
	namespace *sbus.Namespace
	topic     string
}

var _ publish.TopicReader = topicAdmin{}

// TopicProperties needs the Manage claim, or the role Azure Service Bus Data Owner.
func (t topicAdmin) TopicProperties(ctx context.Context) (publish.TopicProperties, error) {
	client, err := t.namespace.NewAdministration()
	if err != nil {
		return publish.TopicProperties{}, err
	}
	response, err := client.GetTopic(ctx, t.topic, nil)
	switch {
	case err != nil:
		return publish.TopicProperties{}, fmt.Errorf("read properties of topic %s: %w", t.topic, short(err))
	case response == nil:
		return publish.TopicProperties{}, fmt.Errorf("read properties of topic %s: it does not exist", t.topic)
	}
	properties := publish.TopicProperties{
		Partitioned:        value(response.EnablePartitioning),
		DuplicateDetection: value(response.RequiresDuplicateDetection),
	}
	if kib := value(response.MaxMessageSizeInKilobytes); kib > 0 {
		properties.MaxMessageBytes = kib << 10
	}
	return properties, nil
}

// short replaces an administration error by its status. The whole error holds the response,
// which has many lines.
func short(err error) error {
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return fmt.Errorf("the namespace answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return err
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// duplicateWindow returns how long the topic remembers message ids, as an ISO 8601
// duration; empty if it does not detect duplicates.
func duplicateWindow(ctx context.Context, c sbus.Config) (string, error) {
	namespace, err := sbus.Open(c)
	if err != nil {
		return "", err
	}
	client, err := namespace.NewAdministration()
	if err != nil {
		return "", err
	}
	topic, err := client.GetTopic(ctx, c.Topic, nil)
	switch {
	case err != nil:
		return "", short(err)
	case topic == nil:
		return "", fmt.Errorf("read properties of topic %s: it does not exist", c.Topic)
	case !value(topic.RequiresDuplicateDetection):
		return "", nil
	}
	return value(topic.DuplicateDetectionHistoryTimeWindow), nil
}
