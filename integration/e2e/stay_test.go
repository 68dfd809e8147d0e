package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// printed collects the lines of a demo that runs with STAY=yes.
type printed struct {
	mu    sync.Mutex
	lines []string
}

func (p *printed) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
}

func (p *printed) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// TestDemoKeepsItsProjectorsIfTheFolderIsInvalid checks that a mistake in the folder of
// projections is printed and replaces no projector, and that the projectors use the folder
// when it is correct again.
func TestDemoKeepsItsProjectorsIfTheFolderIsInvalid(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	backend, err := harness.StartEmbedded(harness.EmbeddedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// In the demo, the run before has made the collection of the event store.
	client, err := mongo.Connect(options.Client().ApplyURI(backend.MongoURI()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	if _, err := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection).Indexes().CreateOne(ctx, workload.Index()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out printed
	ended := make(chan error, 1)
	go func() {
		ended <- sandbox.Stay(ctx, sandbox.StayOptions{
			Backend: backend, Binaries: suite.services, Dir: dir, Projections: []byte(countsProjection), Print: out.add,
		})
	}()
	await := func(what, line string) {
		t.Helper()
		for deadline := time.Now().Add(settleTimeout()); !slices.ContainsFunc(out.all(), func(l string) bool { return strings.Contains(l, line) }); {
			select {
			case err := <-ended:
				t.Fatalf("%s: the demo ended (%v):\n%s", what, err, strings.Join(out.all(), "\n"))
			case <-time.After(pollInterval()):
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: no line %q:\n%s", what, line, strings.Join(out.all(), "\n"))
			}
		}
	}
	pages := func() (n int) {
		for _, line := range out.all() {
			if strings.HasPrefix(line, "status page of projector-0") {
				n++
			}
		}
		return n
	}
	await("at the start", "the pipeline stays up until Ctrl-C")
	file := filepath.Join(dir, sandbox.ProjectionsFolder, "mine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("projections: [{name: mine, collection: mine, on: {Counted: {sett: {}}}}]\n")
	await("with a mistake", "mine.yaml:1:")
	if n := pages(); n != 1 {
		t.Errorf("the projector was started %d times with a mistake in the folder, want once", n)
	}
	write("projections: [{name: mine, collection: mine, on: {Counted: {inc: {n: '1'}}}}]\n")
	await("when it is right", "every projector has the projections of demo.yaml, mine.yaml")
	if n := pages(); n != 2 {
		t.Errorf("the projector was started %d times, want twice", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
