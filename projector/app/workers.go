package app

import (
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// workers returns the workers of all kinds of jobs. They share one rate, and yield to the
// live events that the handler records in live.
func (p *Projector) workers(s *config.Stores, eng *engine.Engine, store readModels, parked *park.Store, events *eventstore.Reader, live *history.Activity) (map[job.Kind]job.Worker, error) {
	c := p.config
	pace := history.NewPace(history.PaceOptions{Rate: float64(c.History.JobRate()), Live: live, Registerer: p.registry})
	refolding, err := history.New(history.Options{
		Source:       events,
		Targets:      eng.Targets,
		Store:        historyStore{store, readmodel.NewRepairer(s.ReadModels)},
		Parking:      parked,
		Engine:       eng,
		Reachable:    s.PingReadModels,
		Pace:         pace,
		FailureLimit: c.Projections.FailureLimit,
		Registerer:   p.registry,
		Logger:       p.logger,
	})
	if err != nil {
		return nil, err
	}
	verifier, err := operate.NewVerifier(c, s, p.projections, store, parked, history.NewFindingStore(s.State), pace, p.logger)
	if err != nil {
		return nil, err
	}
	return map[job.Kind]job.Worker{
		job.Build: refolding, job.Sweep: refolding, job.Verify: verifier,
		job.Reconcile: sweepWorker{watermarks: refolding, content: verifier},
	}, nil
}

// historyStore adapts the store of read models to the workers.
type historyStore struct {
	readModels
	*readmodel.Repairer
}
