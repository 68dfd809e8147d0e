package app

import (
	"context"
	"fmt"
)

// succeed ends the registrations of former processes of this identity, and their coordination of
// rebuilds. Then promotions wait no longer for them. They have ended: in Kubernetes, the kubelet
// starts a container only after the former one. Without an identity, both end by themselves, as
// claims of jobs and of parked aggregates always do.
func (p *Projector) succeed(ctx context.Context, h *upkeep) error {
	if p.config.Process.Identity == "" {
		return nil
	}
	dead, leases, err := h.registry.Succeed(ctx)
	if err != nil {
		return fmt.Errorf("succeed the former processes of this pod: %w", err)
	}
	if leases > 0 {
		p.logger.Info().Strs("former", dead).Int("leases", leases).Msg("leases of the former processes of this pod ended")
	}
	return nil
}
