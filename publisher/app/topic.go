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

// batching returns the policy to begin with. If it is auto and read cannot read the properties of
// the topic, the dispatcher finds the policy by trying.
func batching(ctx context.Context, c config.Config, read func(context.Context, string) (admin.TopicProperties, error), logger zerolog.Logger) publish.Batching {
	policy := publish.Batching(c.Publish.Batching)
	if policy != publish.BatchingAuto {
		return policy
	}
	ctx, cancel := context.WithTimeout(ctx, propertiesTimeout)
	defer cancel()
	found, err := read(ctx, c.ServiceBus.Topic)
	if err != nil {
		policy = policy.Resolve(nil)
		logger.Info().AnErr("reason", err).Str("batching", string(policy)).
			Msg("topic properties not read; trying batches and adapting to the answers. Set PENSTOCK_BATCHING to avoid the attempts")
		return policy
	}
	properties := publish.TopicProperties{Partitioned: sbus.Value(found.EnablePartitioning), DuplicateDetection: sbus.Value(found.RequiresDuplicateDetection)}
	policy = policy.Resolve(&properties)
	logger.Info().Bool("partitioned", properties.Partitioned).Bool("duplicateDetection", properties.DuplicateDetection).
		Str("batching", string(policy)).Msg("topic properties read")
	return policy
}
