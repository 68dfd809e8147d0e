package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
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

// TestLiveEventsContinueAfterARebuild checks that a rebuild ends no pod's live stream. Pods
// from before the rebuild, and those that brought the definition, project into the new
// generation.
func TestLiveEventsContinueAfterARebuild(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	old := c.pod(0, visits(t, 1))
	old.deliver(c.store(names(30)...))
	c.right(1)
	fresh := c.pod(0, visits(t, 2))
	old.deliver(c.store(names(10)...))
	c.live(2)
	for range 3 {
		old.deliver(c.store(names(40)...))
		fresh.deliver(c.store(names(20)...))
	}
	c.right(2)
	if left := c.shadows(); len(left) != 0 {
		t.Errorf("collections are left: %v", left)
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

// TestRetriedBuildStartsFromAnEmptyCollection checks that a new build does not continue
// what a failed build has written. It has its own collection, watermarks and jobs.
func TestRetriedBuildStartsFromAnEmptyCollection(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	for range 3 {
		p.deliver(c.store(names(200)...))
	}
	p.stop()
	slow := c.pod(100, visits(t, 2))
	shadow := c.await("generation 2 begins", func(e *catalog.Entry) bool { return e.Building != nil }).Building.Shadow
	c.await("a part of generation 2 built", func(*catalog.Entry) bool {
		n, err := c.database.Collection(shadow).EstimatedDocumentCount(t.Context())
		return err == nil && n > 0
	})
	e := c.entry()
	if _, err := slow.jobs.Cancel(t.Context(), e.Building.Jobs.Build, "no reason"); err != nil {
		t.Fatal(err)
	}
	c.await("generation 2 failed", func(e *catalog.Entry) bool { return e.Building != nil && e.Building.State == catalog.Failed })
	c.right(1)
	slow.stop()
	// Make the rest of the failed build look finished, and wrong.
	if _, err := c.database.Collection(shadow).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: int64(999)}, {Key: "lastEventId", Value: int64(3)}}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) {
		return catalog.Start(e, e.Pipeline, catalog.Declared{Name: e.Name, Definition: e.Building.Definition}, 0, catalog.Author{At: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	fast := c.pod(0, visits(t, 2))
	c.live(3)
	c.right(2)
	built, err := fast.jobs.Get(t.Context(), fmt.Sprintf("visits.%d.build-0", c.entry().Live.Generation))
	if err != nil || built.Counts[history.CountWritten] != 200 || built.Counts[history.CountEvents] != 600 {
		t.Errorf("the second build is %+v, %v; want every aggregate written", built, err)
	}
	c.await("the data of the failed build removed", func(*catalog.Entry) bool {
		return len(c.shadows()) == 0
	})
}

// TestTwoRebuildsAtOnceRunOneAfterTheOther checks that two rebuilds of one projection that
// start at the same moment run one after the other, with their own numbers, and that the
// last one goes live.
func TestTwoRebuildsAtOnceRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(50)...))
	definition := c.entry().Live.Definition
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) {
				return catalog.Start(e, e.Pipeline, catalog.Declared{Name: e.Name, Definition: definition}, 0, catalog.Author{At: time.Now()})
			}); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	c.live(5)
	p.deliver(c.store(names(50)...))
	c.right(1)
	var superseded []int64
	for _, r := range c.entry().History {
		if r.What == catalog.WhatSuperseded {
			superseded = append(superseded, r.Generation)
		}
	}
	if len(superseded) != 3 {
		t.Errorf("superseded are %v", superseded)
	}
	c.await("the data of the others removed", func(*catalog.Entry) bool { return len(c.shadows()) == 0 })
}

// TestRebuildOverAnEmptyEventStoreEnds checks that a rebuild does not wait for an event.
func TestRebuildOverAnEmptyEventStoreEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pod(0, visits(t, 1))
	c.live(1)
	fresh := c.pod(0, visits(t, 2))
	c.live(2)
	fresh.deliver(c.store(names(3)...))
	c.right(2)
}

// TestGoProjectionChangesInARollout checks a rolling update of a projection in Go, whose
// code only the new pods have. The promotion waits for the last old pod. The sweep folds
// the events that the old pod settled without the new generation. Until then the old
// generation is complete.
func TestGoProjectionChangesInARollout(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	old := c.pod(0, visitsInGo(t, 1))
	old.deliver(c.store(names(30)...))
	c.right(1)

	fresh := c.pod(0, visitsInGo(t, 2))
	waiting := c.await("the new generation waits for the old pod", func(e *catalog.Entry) bool {
		return e.Building != nil && e.Building.State == catalog.CatchingUp && e.Building.Reason == "pods that do not serve the generation yet: "+old.pod+", "+fresh.pod ||
			e.Building != nil && e.Building.State == catalog.CatchingUp && e.Building.Reason == "pods that do not serve the generation yet: "+old.pod
	})
	if waiting.Live.Generation != 1 {
		t.Errorf("live is %+v", waiting.Live)
	}
	// The new pod lacks the code of the live generation, so only the old pod updates it.
	// The old pod does not know the new generation.
	old.deliver(c.store(names(20)...))
	old.deliver(c.store("only-the-old-pod-saw-it"))
	c.right(1)
	old.stop()
	c.live(2)
	c.right(2)
	fresh.deliver(c.store(names(30)...))
	c.right(2)
}
