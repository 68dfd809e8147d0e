package app

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// propertiesTimeout bounds reading the topic's properties, which only tune the batching.
const propertiesTimeout = 5 * time.Second

// batching returns the policy to begin with. Auto resolves to
//
//	partitioned, duplicate detection   off      Microsoft: do not batch
//	                                            (azure-sdk-for-python#21955)
//	partitioned                        session  distinct keys are refused
//	                                            (amqpnetlite#120)
//	otherwise                          mixed    no restriction is documented
//
// It is mixed too if read cannot read the properties of the topic: a topic that does not allow
// that refuses each batch as a whole, and the dispatcher falls back to smaller batches without
// losing or repeating an event.
func batching(ctx context.Context, c config.Config, read func(context.Context, string) (admin.TopicProperties, error), logger zerolog.Logger) publish.Batching {
	if policy := publish.Batching(c.Publish.Batching); policy != publish.BatchingAuto {
		return policy
	}
	ctx, cancel := context.WithTimeout(ctx, propertiesTimeout)
	defer cancel()
	policy := publish.BatchingMixed
	found, err := read(ctx, c.ServiceBus.Topic)
	if err != nil {
		logger.Info().AnErr("reason", err).Str("batching", string(policy)).
			Msg("topic properties not read; trying batches and adapting to the answers. Set PENSTOCK_BATCHING to avoid the attempts")
		return policy
	}
	partitioned, detects := sbus.Value(found.EnablePartitioning), sbus.Value(found.RequiresDuplicateDetection)
	switch {
	case partitioned && detects:
		policy = publish.BatchingOff
	case partitioned:
		policy = publish.BatchingSession
	}
	logger.Info().Bool("partitioned", partitioned).Bool("duplicateDetection", detects).
		Str("batching", string(policy)).Msg("topic properties read")
	return policy
}
