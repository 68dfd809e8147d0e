package e2e_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/eventlog"
)

// dataDir has public event logs beside some checkouts; it is not part of the repository.
const dataDir = "../../../shared/data"

// Real histories: long aggregates beside short ones, and hundreds of them at the same time.
// The leader and a projector are killed meanwhile.
func TestPublicEventLogs(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	for _, log := range []struct {
		file string
		over time.Duration
	}{
		{"permits.ndjson.gz", 3 * time.Second},
		{"incidents.ndjson.gz", 15 * time.Second},
	} {
		t.Run(log.file, func(t *testing.T) {
			inParallel(t)
			w, err := eventlog.Open(filepath.Join(dataDir, log.file))
			if errors.Is(err, fs.ErrNotExist) {
				t.Skipf("%s is not beside this checkout", filepath.Join("../shared/data", log.file))
			}
			if err != nil {
				t.Fatal(err)
			}
			s := newScenario(t, w)
			s.start(2, 2)
			s.load(log.over)
			s.awaitPublished(0.4)
			s.leader().Kill()
			s.kill("projector", 0)
			s.startProjector(0)
			s.checkTerms("published", s.invariants().Epochs, 2)
		})
	}
}
