package operate

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// A declared definition is live, fails, waits for a person or is on its way.
func TestStandingOfADeclaredDefinition(t *testing.T) {
	t.Parallel()
	declared := catalog.Declared{Name: "orders", Definition: catalog.Definition{Hash: "new"}}
	old, definition := &catalog.Live{Generation: 1, Definition: catalog.Definition{Hash: "old"}}, catalog.Definition{Hash: "new"}
	for want, e := range map[standingOf]*catalog.Entry{
		{text: "no projector has declared it yet"}:                         nil,
		{text: "generation 2 is live", live: true}:                         {Live: &catalog.Live{Generation: 2, Definition: definition}},
		{text: "no projector has declared this definition yet"}:            {Live: old},
		{text: "the build of this definition was cancelled", failed: true}: {Live: old, GivenUp: &catalog.GivenUp{Hash: "new"}},
		{text: "generation 2 is building"}:                                 {Live: old, Building: &catalog.Build{Generation: 2, Definition: definition, State: catalog.Building}},
		{text: "generation 2 is failed: no key", failed: true}:             {Live: old, Building: &catalog.Build{Generation: 2, Definition: definition, State: catalog.Failed, Reason: "no key"}},
		{text: "generation 2 is verifying: 3 are parked", blocked: true}:   {Live: old, Building: &catalog.Build{Generation: 2, Definition: definition, State: catalog.Verifying, Reason: "3 are parked", Parked: 3}},
	} {
		if got := standing(e, declared); got != want {
			t.Errorf("%+v: %+v, want %+v", e, got, want)
		}
	}
	if got := standing(&catalog.Entry{RetiredAt: new(time.Time), Live: &catalog.Live{Definition: definition}}, declared); got.live {
		t.Errorf("a retired projection is %+v", got)
	}
}
