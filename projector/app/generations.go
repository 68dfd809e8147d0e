package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// podName names this process among the projectors. Each start of a process gets another
// name.
func podName(host string) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return host + "_" + hex.EncodeToString(random[:])
}

// upkeep keeps this process in step with the catalog of definitions. It also holds the
// parts that the coordinator of rebuilds needs.
type upkeep struct {
	pod      string
	follower *catalog.Follower
	registry *catalog.Registry
	catalog  *catalog.Catalog
	// lease is that of the coordinator.
	lease    *catalog.CoordinatorLease
	jobs     *job.Store
	findings *history.FindingStore
	// runner and coordinator start after the targets are known.
	runner *job.Runner
	// reconciling runs the periodic sweeps separately: they wait for the stream, and a
	// build must not wait for them.
	reconciling *job.Runner
	coordinator *catalog.Coordinator
	parked      *park.Store
}

// parkedKinds returns the kinds of parked aggregates of the pipeline's projections, as this
// process has counted them.
func (h *upkeep) parkedKinds() []operate.ParkedKind {
	return operate.ParkedKinds(h.parked.Counts(), h.follower.Projections())
}

// smallJob is how many events a small job reads at most. rate is how many events a second all jobs
// may read; 0 for no limit. Other processes could not take a part of a small job before it is done,
// and it needs no progress, because it lasts seconds.
func smallJob(rate int) int64 {
	const most, seconds = 10_000, 2
	if rate == 0 {
		return most
	}
	return int64(min(most, rate*seconds))
}

// newRegistry makes this process's registration.
func (p *Projector) newRegistry(s *config.Stores, pod string) *catalog.Registry {
	own := catalog.Registration{Pod: pod, Pipeline: p.config.Pipeline().String(), Host: cmp.Or(p.config.Process.Identity, p.host), StartedAt: time.Now()}
	for _, d := range catalog.Declare(p.projections...) {
		own.Declares = append(own.Declares, catalog.Declaration{Projection: d.Name, Hash: d.Hash})
	}
	return catalog.NewRegistry(s.State.Collection(catalog.RegistryName), own)
}

// newHistory makes the parts that follow the catalog.
func (p *Projector) newHistory(s *config.Stores, pod string, registry *catalog.Registry, parked *park.Store, t *targets) *upkeep {
	h := &upkeep{
		pod: pod, registry: registry, parked: parked,
		lease:    catalog.NewCoordinatorLease(s.State.Collection(catalog.RegistryName), p.config.Pipeline().String(), pod),
		catalog:  catalog.NewCatalog(s.State.Collection(catalog.CatalogName), p.config.Pipeline().String()),
		findings: history.NewFindingStore(s.State),
	}
	h.jobs = job.NewStore(s.State, job.Options{Pruned: h.findings.Delete, Registerer: p.registry, Logger: p.logger})
	h.follower = catalog.NewFollower(catalog.FollowerOptions{
		Pod: pod, Pipeline: p.config.Pipeline().String(),
		Catalog: h.catalog, Registry: registry, Engine: t,
		Declares: catalog.Declare(p.projections...), Able: t.Able,
		Empty: s.NoEvents,
		Used: func(ctx context.Context, d catalog.Declared) (int64, error) {
			return readmodel.HighestGeneration(ctx, s.ReadModels, d.Name, d.Collection)
		},
		Registerer: p.registry, Logger: p.logger,
	})
	return h
}

// startHistory registers this process and sets the engine's targets. It retries after
// transient errors.
func (p *Projector) startHistory(ctx context.Context, s *config.Stores, h *upkeep) error {
	const what = "compare the projections with the catalog"
	defer p.startup.begin(what, p.logger)()
	for {
		attempt, cancel := context.WithCancel(ctx)
		err := errors.Join(job.Prepare(attempt, s.State), h.findings.Prepare(attempt))
		if err == nil {
			err = h.follower.Start(attempt)
		}
		if err == nil {
			// This pod is registered, so its declarations count without a break.
			err = p.succeed(attempt, h)
		}
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, readmodel.ErrLayout):
			return errors.Join(err, h.registry.Leave(ctx))
		case !mongox.Transient(err) && mongox.HasCode(err, mongox.CodeUnauthorized):
			return fmt.Errorf("%s at %s: %w; the user needs the role readWrite on that database", what, p.config.MongoDB.State(), err)
		}
		p.startup.retry(what, err)
		p.logger.Warn().Err(err).Msg("catalog of projections not ready; retrying")
		if err := poll.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// coordinator makes the coordinator of rebuilds.
func (p *Projector) coordinator(s *config.Stores, h *upkeep, parked *park.Store, events *eventstore.Reader) *catalog.Coordinator {
	return catalog.NewCoordinator(catalog.CoordinatorOptions{
		Pod: h.pod, Lease: h.lease, Catalog: h.catalog, Alive: h.registry.Alive,
		Jobs: h.jobs, Sample: p.config.History.VerifySample,
		Collections: rebuildCollections{catalog.NewShadows(s.ReadModels), s.ReadModels, p.logger},
		Data:        newRebuildData(s.ReadModels, parked, events),
		Logger:      p.logger,
	})
}
