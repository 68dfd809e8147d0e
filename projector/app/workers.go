package app

import (
	"time"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// workers returns the workers of all kinds of jobs. They share one rate, and yield to the
// live events that the handler records in live.
func (p *Projector) workers(s *config.Stores, eng *engine.Engine, store readModels, parked *park.Store, events *eventstore.Reader, live *history.Activity) *history.Workers {
	o := operate.VerificationOptions(p.config, s, p.compiler)
	o.Events, o.Store, o.Parking, o.Logger = events, store, parked, p.logger
	o.Targets, o.Engine, o.Reachable = eng.Targets, eng, s.PingReadModels
	o.Pace = history.NewPace(history.PaceOptions{Rate: float64(p.config.History.JobRate()), Live: live, Registerer: p.registry})
	o.FailureLimit, o.Registerer = p.config.Projections.FailureLimit, p.registry
	return history.New(o)
}

// scheduler makes the scheduler of sweeps, with which the read models converge whatever the
// broker does.
func (p *Projector) scheduler(h *upkeep) *history.Scheduler {
	return history.NewScheduler(history.SchedulerOptions{
		Jobs: h.jobs, Pod: h.pod, Registerer: p.registry, Logger: p.logger,
		Interval: time.Duration(p.config.History.Reconcile), Content: p.config.History.ReconcileContent,
		Live: func() map[string]int64 {
			live := map[string]int64{}
			for name, e := range h.follower.Projections() {
				switch {
				case e.RetiredAt != nil:
					live[name] = 0
				case e.Live != nil && !e.Live.Frozen:
					live[name] = max(e.Live.Generation, catalog.First)
				}
			}
			return live
		},
		Replaceable: func(projection string) bool {
			e := h.follower.Projections()[projection]
			return e != nil && e.Replaceable()
		},
	})
}
