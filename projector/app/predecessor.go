package app

import (
	"context"
	"fmt"
)

// predecessors returns which projectors of this host are dead. Without that, what they held
// ends by itself.
func (p *Projector) predecessors(pod string) []string {
	dead, err := p.seat("projector", pod)
	if err != nil {
		p.logger.Warn().Err(err).Msg("former projectors of this host not known: what they held ends by itself (PENSTOCK_RUN_DIRECTORY)")
	}
	return dead
}

// succeed ends what dead projectors of this host hold: their registrations, the coordination of
// rebuilds, the lease of the reconciler, and their claims of jobs and of parked aggregates. Then
// any process can continue their work. The writer ends their transactions.
func (p *Projector) succeed(ctx context.Context, h *history) error {
	if len(p.dead) == 0 {
		return nil
	}
	leases := 0
	for _, abandon := range []func(context.Context, []string) (int, error){
		h.registry.Abandon, h.catalog.Abandon, h.jobs.Abandon, h.records.Abandon, h.parked.Abandon,
	} {
		held, err := abandon(ctx, p.dead)
		if err != nil {
			return fmt.Errorf("succeed dead projectors of this host: %w", err)
		}
		leases += held
	}
	if leases > 0 {
		p.logger.Info().Strs("dead", p.dead).Int("leases", leases).Msg("leases of dead projectors of this host ended")
	}
	return nil
}
