package operate

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// Projectors end the build of a definition that none of them declares, as after a rollback.
func TestRebuildRefusesADefinitionThatNoProjectorDeclares(t *testing.T) {
	t.Parallel()
	_, s, _ := emptyState(t)
	definition := func(hash string) *catalog.Definition {
		return &catalog.Definition{Hash: hash, Collection: "visits", Text: "{}"}
	}
	live := catalog.Create("p", catalog.Declared{Name: "visits", Definition: *definition("live")}, catalog.Author{})
	registry := catalog.NewRegistry(s.State.Collection(catalog.RegistryName), catalog.Registration{
		Pod: "a", Pipeline: "p", Declares: []catalog.Declaration{{Projection: "visits", Hash: "rolled out"}},
	})
	if err := registry.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &projectionsRebuildCommand{projectionName: projectionName{"visits"}}
	for hash, refusal := range map[string]string{
		"live": "", "rolled out": "", "in a file": "no running projector declares definition in a file of projection visits",
	} {
		_, next, err := c.plan(t.Context(), s, live, definition(hash))
		if refusal == "" && (err != nil || next.Building.Hash != hash) || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
			t.Errorf("definition %q: %+v, %v", hash, next, err)
		}
	}
}
