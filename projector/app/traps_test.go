package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// The tests of this file run whole rebuilds, over the wire protocol. Each covers a fault of
// other systems that rebuild read models. docs/comparison.md lists the faults with all their
// tests.

// TestTestsNamedInTheComparisonExist checks that the list names existing tests.
func TestTestsNamedInTheComparisonExist(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	text, err := fs.ReadFile(root, "docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := make(map[string]bool)
	for _, name := range regexp.MustCompile("`Test[A-Z][A-Za-z]+`").FindAllString(string(text), -1) {
		missing[strings.Trim(name, "`")] = true
	}
	if len(missing) < 20 {
		t.Errorf("the comparison names %d tests", len(missing))
	}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, module := range []string{"pkg", "publisher", "projector", "integration/e2e", "integration/simulation"} {
		err := fs.WalkDir(root, module, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := fs.ReadFile(root, path)
			for _, match := range function.FindAllSubmatch(source, -1) {
				delete(missing, string(match[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range missing {
		t.Errorf("docs/comparison.md names %s, which does not exist", name)
	}
}

// TestWipedReadModelIsFoldedAgain checks that pods keep no watermarks in memory. Somebody
// deletes documents, or the collection, under a running pod. Then an aggregate's next event
// folds its whole history, and a sweep folds the others.
func TestWipedReadModelIsFoldedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	for range 3 {
		p.deliver(c.store(names(20)...))
	}
	wipes := map[string]func() error{
		"documents":  func() error { _, err := c.database.Collection("visits").DeleteMany(t.Context(), bson.D{}); return err },
		"collection": func() error { return c.database.Collection("visits").Drop(t.Context()) },
	}
	for name, wipe := range wipes {
		if err := wipe(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.database.Collection("watermarks").DeleteMany(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
		p.deliver(c.store("a-007"))
		cursor, err := c.database.Collection("visits").Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var found []visit
		if err := cursor.All(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		if head := c.heads["a-007"]; len(found) != 1 || found[0] != (visit{"a-007", head, 1, head}) {
			t.Errorf("%s: after the next event there is %+v", name, found)
		}
		sweep, err := p.jobs.Create(t.Context(), job.Job{ID: "sweep-" + name, Kind: job.Sweep, Projection: "visits", Generation: 1})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := p.jobs.Await(t.Context(), sweep.ID, 5*time.Millisecond, nil)
		if err != nil || ended.State != job.Done || ended.Counts[history.CountBehind] != 19 {
			t.Errorf("%s: the sweep ended as %+v, %v", name, ended, err)
		}
		c.right(1)
	}
}
