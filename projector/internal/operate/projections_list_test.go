package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// The list says what a build waits for, and how many builds are before it.
func TestListShowsWhatABuildWaitsFor(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	var c config.Config
	projections := catalog.NewCatalog(db.Collection(catalog.CatalogName), c.Pipeline().String())
	for i, reason := range map[int]string{0: "", 1: "job a was delayed"} {
		declared := catalog.Declared{Name: []string{"visits", "users"}[i], Definition: catalog.Definition{Hash: "a"}}
		e, err := catalog.Start(nil, c.Pipeline().String(), declared, 0, catalog.Author{At: time.UnixMilli(int64(i))})
		if err != nil {
			t.Fatal(err)
		}
		e.Building.Reason, e.Building.Jobs.Build = reason, "users.1.build-0"
		if _, err := projections.Write(t.Context(), nil, e); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	e := &Environment{stdout: &out, stderr: &out, Logger: zerolog.Nop()}
	if err := new(projectionsListCommand).runOn(t.Context(), e, &stored{Stores: &config.Stores{State: db, ReadModels: db}, environment: e, catalog: projections}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waits for job users.1.build-0 (build 1 of 2)", "job a was delayed (build 2 of 2)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the list:\n%s", want, &out)
		}
	}
}
