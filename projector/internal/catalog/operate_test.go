package catalog_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

func TestDropKeepsOnlyTheGenerationNumber(t *testing.T) {
	t.Parallel()
	retired := retired(t, catalog.Promote(start(t, live("a"), "b"), by))
	collections := []string{"userReadModels"}
	begun := catalog.BeginDrop(retired, collections, by)
	if !begun.Dropped() || len(begun.Garbage) > 0 || len(begun.Left) != 1 || begun.Left[0].Collection != "userReadModels" || begun.History[len(begun.History)-1].What != catalog.WhatDropped {
		t.Errorf("begun: %+v", begun)
	}
	dropped := catalog.EndDrop(begun, collections)
	if !dropped.Dropped() || dropped.Generations != 2 || dropped.RetiredAt == nil || len(dropped.Garbage)+len(dropped.Left) > 0 {
		t.Errorf("ended: %+v", dropped)
	}
	if retired.Live == nil || len(begun.Left) != 1 {
		t.Error("the entry that was given has changed")
	}
	// Declared again, it is built from the event store under a new number.
	again := start(t, dropped, "b")
	if again.Building.Generation != 3 || again.RetiredAt != nil || again.Live != nil {
		t.Errorf("declared again: %+v", again)
	}
}

func TestAllowAppliesOnlyToABuild(t *testing.T) {
	t.Parallel()
	if _, err := catalog.Allow(live("a"), catalog.Allowed{Parked: 3}, by); err == nil {
		t.Error("parked aggregates were allowed although nothing is built")
	}
	e := start(t, live("a"), "b")
	want := catalog.Allowed{Parked: 3, Archived: 2}
	allowed, err := catalog.Allow(e, want, by)
	if err != nil || allowed.Building.Allowed != want || e.Building.Allowed.Parked != 0 || allowed.Building.Generation != e.Building.Generation {
		t.Errorf("%+v, %v", allowed, err)
	}
}

func TestGiveUpEndsTheBuildAndKeepsTheLiveDefinition(t *testing.T) {
	t.Parallel()
	building := start(t, live("a"), "b")
	why := catalog.Author{Who: "ada", Why: "wrong", At: by.At}
	e, err := catalog.GiveUp(building, why)
	if err != nil {
		t.Fatal(err)
	}
	last := e.History[len(e.History)-1]
	if say(e) != "live 1 a garbage 2" || !e.HasGivenUp("b") || e.HasGivenUp("a") || last.What != catalog.WhatCancelled || last.Who != "ada" || last.Why != "wrong" {
		t.Errorf("%s: %+v, %+v", say(e), e.GivenUp, last)
	}
	if building.Building == nil || building.GivenUp != nil {
		t.Error("the entry that was given has changed")
	}
	if again := start(t, e, "b"); again.GivenUp != nil || again.Building.Generation != 3 {
		t.Errorf("built again: %+v", again)
	}
	// If the live definition is being built again, cancelling the build records no
	// cancelled definition.
	if same := givenUp(t, start(t, live("a"), "a")); same.GivenUp != nil {
		t.Errorf("a build by the live definition: %+v", same.GivenUp)
	}
	frozen := start(t, live("a"), "b")
	frozen.Live.Frozen = true
	for name, e := range map[string]*catalog.Entry{"nothing is built": live("a"), "promoting": in(building, catalog.Promoting), "frozen": frozen} {
		if _, err := catalog.GiveUp(e, by); err == nil {
			t.Errorf("%s: given up", name)
		}
	}
}

func TestDropOfAFormerCollectionKeepsTheLiveGeneration(t *testing.T) {
	t.Parallel()
	e := live("a")
	e.Left = []catalog.Left{{Collection: "old", Generation: 1}, {Collection: "used", Generation: 1}}
	dropped := catalog.EndDrop(catalog.BeginDrop(e, []string{"old"}, by), []string{"old"})
	if dropped.Live == nil || len(dropped.Left) != 1 || dropped.Left[0].Collection != "used" || len(e.Left) != 2 || dropped.History[len(dropped.History)-1].What != catalog.WhatDropped {
		t.Errorf("%+v", dropped)
	}
}
