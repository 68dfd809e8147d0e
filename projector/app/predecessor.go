package app

import (
	"context"
	"fmt"
)

// succeed ends what former processes of this identity hold: their registrations, the
// coordination of rebuilds, and their claims of jobs and of parked aggregates. Then any process
// can continue their work. They have ended: in Kubernetes, the kubelet starts a container only
// after the former one. Without an identity, what they held ends by itself.
func (p *Projector) succeed(ctx context.Context, h *upkeep) error {
	if p.config.Process.Identity == "" {
		return nil
	}
	const what = "succeed the former processes of this pod"
	dead, leases, err := h.registry.Succeed(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(dead) == 0 {
		return nil
	}
	for _, abandon := range []func(context.Context, []string) (int, error){h.jobs.Abandon, h.parked.Abandon} {
		claims, err := abandon(ctx, dead)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		leases += claims
	}
	if leases > 0 {
		p.logger.Info().Strs("former", dead).Int("leases", leases).Msg("leases of the former processes of this pod ended")
	}
	return nil
}
