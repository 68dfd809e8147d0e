package app

import (
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// predecessors returns the former processes of this one's identity, by their registrations.
// They have ended: in Kubernetes, the kubelet starts a container only after the former one.
// Without that, what they held ends by itself.
func (p *Projector) predecessors(ctx context.Context, s *config.Stores, pod string) []string {
	identity := p.config.Process.Identity
	if identity == "" {
		return nil
	}
	registered := mongox.Durable(s.State, catalog.RegistryName)
	former, err := catalog.Former(ctx, registered, p.config.Pipeline().String(), identity, pod)
	if err != nil {
		p.logger.Warn().Err(err).Msg("former processes of this pod not known: what they held ends by itself")
	}
	return former
}

// succeed ends what former processes of this identity hold: their registrations, the
// coordination of rebuilds, and their claims of jobs and of parked aggregates. Then any process
// can continue their work.
func (p *Projector) succeed(ctx context.Context, h *upkeep) error {
	if len(p.dead) == 0 {
		return nil
	}
	leases := 0
	for _, abandon := range []func(context.Context, []string) (int, error){
		h.registry.Abandon, h.lease.Abandon, h.jobs.Abandon, h.parked.Abandon,
	} {
		held, err := abandon(ctx, p.dead)
		if err != nil {
			return fmt.Errorf("succeed the former processes of this pod: %w", err)
		}
		leases += held
	}
	if leases > 0 {
		p.logger.Info().Strs("former", p.dead).Int("leases", leases).Msg("leases of the former processes of this pod ended")
	}
	return nil
}
