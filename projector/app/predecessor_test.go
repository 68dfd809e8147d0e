package app

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

// leases are the stores with the leases of a projector.
func (c *cluster) leases(pod string) *upkeep {
	c.t.Helper()
	h := &upkeep{
		pod: pod, catalog: c.catalog, jobs: c.jobs,
		registry: catalog.NewRegistry(mongox.Durable(c.database, catalog.RegistryName), catalog.Registration{Pod: pod}),
		records:  reconcile.NewStore(reconcile.In(c.database), "", "", pod),
		parked:   park.NewStore(park.In(c.database), park.Options{Process: pod, FirstRetry: time.Millisecond}),
	}
	h.parked.Serve([]park.Served{{Projection: "visits"}})
	if err := h.registry.Register(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return h
}

// take takes each lease that is free, and adds it to taken.
func (c *cluster) take(h *upkeep, j job.Job, taken map[string]bool) {
	c.t.Helper()
	_, err := h.catalog.Coordinate(c.t.Context(), "visits", h.pod, time.Hour)
	taken["rebuild"] = taken["rebuild"] || err == nil
	if errors.Is(err, catalog.ErrNotCoordinator) {
		err = nil
	}
	_, planned, planning := h.jobs.Claim(c.t.Context(), j, h.pod, time.Hour)
	taken["job"] = taken["job"] || planned
	reconciles, holding := h.records.Hold(c.t.Context(), time.Hour)
	taken["reconciler"] = taken["reconciler"] || reconciles
	_, resumes, claiming := h.parked.Claim(c.t.Context(), time.Hour)
	taken["parked aggregate"] = taken["parked aggregate"] || resumes
	if err := errors.Join(err, planning, holding, claiming); err != nil {
		c.t.Fatal(err)
	}
}

// A projector that starts ends all leases of a dead one, so that others can take them at once.
// It ends none of a living one.
func TestSuccessorEndsTheLeasesOfADeadProjector(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if _, err := c.catalog.Write(t.Context(), nil, &catalog.Entry{Name: "visits"}); err != nil {
		t.Fatal(err)
	}
	dead, living, third := c.leases("dead"), c.leases("living"), c.leases("third")
	j, err := c.jobs.Create(t.Context(), job.Job{ID: "j", Kind: job.Verify, Projection: "visits"})
	if err == nil {
		err = dead.parked.Park(t.Context(), []model.Marker{{Unit: model.Unit{Projection: "visits", AggregateID: "a"}, Reason: "missing", EventID: 1, Head: 1, Resumes: true}})
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{"rebuild": true, "job": true, "reconciler": true, "parked aggregate": true}
	none := map[string]bool{"rebuild": false, "job": false, "reconciler": false, "parked aggregate": false}
	// wins checks that the process takes all leases, which can last a second.
	wins := func(h *upkeep) {
		t.Helper()
		taken := maps.Clone(none)
		for late := time.Now().Add(time.Minute); !maps.Equal(taken, all); <-time.After(20 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%s has taken %v", h.pod, taken)
			}
			c.take(h, j, taken)
		}
	}
	loses := func(h *upkeep) {
		t.Helper()
		taken := maps.Clone(none)
		if c.take(h, j, taken); !maps.Equal(taken, none) {
			t.Errorf("%s has taken %v", h.pod, taken)
		}
	}
	wins(dead)
	loses(living)
	var log bytes.Buffer
	p := &Projector{dead: []string{"dead"}, logger: zerolog.New(&log)}
	if err := p.succeed(t.Context(), living); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), `"leases":5,`) {
		t.Errorf("the log is %s", &log)
	}
	if alive, err := living.registry.Alive(t.Context()); err != nil || len(alive) != 2 || alive[0].Pod != "living" {
		t.Errorf("alive are %+v: %v", alive, err)
	}
	wins(living)
	if err := p.succeed(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	loses(third)
	loses(dead)
}
