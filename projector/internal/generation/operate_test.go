package generation_test

import (
	"slices"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/generation"
)

func TestDropLeavesTheNumbersAndNothingElse(t *testing.T) {
	t.Parallel()
	e := generation.Promote(start(t, live("a"), "b"), by)
	if _, err := generation.Drop(e, by); err == nil {
		t.Error("a projection that pods declare was dropped")
	}
	retired, err := generation.Retire(e, by)
	if err != nil {
		t.Fatal(err)
	}
	dropped, err := generation.Drop(retired, by)
	if err != nil || !dropped.Dropped() || dropped.Generations != 2 || dropped.RetiredAt == nil || len(dropped.Garbage)+len(dropped.Left) > 0 || dropped.History[len(dropped.History)-1].What != generation.WhatDropped {
		t.Errorf("%+v, %v", dropped, err)
	}
	if retired.Live == nil {
		t.Error("the entry that was given has changed")
	}
	// Declared again, it is built from the event store under a new number.
	again := start(t, dropped, "b")
	if again.Building.Generation != 3 || again.RetiredAt != nil || again.Live != nil {
		t.Errorf("declared again: %+v", again)
	}
}

func TestAllowConcernsABuildOnly(t *testing.T) {
	t.Parallel()
	if _, err := generation.Allow(live("a"), 3, by); err == nil {
		t.Error("parked aggregates were allowed although nothing is built")
	}
	e := start(t, live("a"), "b")
	allowed, err := generation.Allow(e, 3, by)
	if err != nil || allowed.Building.AllowParked != 3 || e.Building.AllowParked != 0 || allowed.Building.Generation != e.Building.Generation {
		t.Errorf("%+v, %v", allowed, err)
	}
}

func TestDropLeftKeepsTheLiveGeneration(t *testing.T) {
	t.Parallel()
	e := live("a")
	e.Left = []generation.Left{{Collection: "old", Generation: 1}}
	dropped := generation.DropLeft(e, by)
	if dropped.Live == nil || len(dropped.Left) > 0 || len(e.Left) != 1 || !slices.Contains([]string{generation.WhatDropped}, dropped.History[len(dropped.History)-1].What) {
		t.Errorf("%+v", dropped)
	}
}

func TestListWithoutAPipelineGivesAll(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	for _, pipeline := range []string{"one", "two"} {
		e := live("a")
		e.Name, e.Pipeline = pipeline, pipeline
		if _, err := generation.NewCatalog(generation.Open(db, generation.CatalogName), pipeline).Write(t.Context(), nil, e); err != nil {
			t.Fatal(err)
		}
	}
	for pipeline, want := range map[string]int{"one": 1, "": 2} {
		entries, err := generation.NewCatalog(generation.Open(db, generation.CatalogName), pipeline).List(t.Context())
		if err != nil || len(entries) != want {
			t.Errorf("pipeline %q: %v, %v", pipeline, entries, err)
		}
	}
}
