package catalog_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// 60 projections change together, and each request takes 5 ms. The writes of each are paused only
// for its own promotion.
func TestProjectionsThatChangeTogetherArePausedOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const projections, request, longest = 60, 5 * time.Millisecond, 500 * time.Millisecond
		r := &run{simulation: newSimulation()}
		declared := func(i int, hash string) catalog.Declared {
			return catalog.Declared{Name: fmt.Sprintf("p%02d", i), Definition: catalog.Definition{Hash: hash, Collection: fmt.Sprintf("c%02d", i)}}
		}
		r.create(readers)
		r.start()
		defer func() { r.coordinators[0].kill() }()
		for i := range projections {
			d := declared(i, "a")
			c := r.create(d.Collection)
			c.projection, c.generation = d.Name, catalog.First
			e, err := r.replace(nil, catalog.Create("", d, catalog.Author{At: time.Now()}))
			if err != nil {
				t.Fatal(err)
			}
			if e, err = catalog.Start(e, "", declared(i, "b"), 0, catalog.Author{At: time.Now()}); err == nil {
				_, err = r.replace(r.entries[d.Name], e)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		paused, most := map[string]time.Time{}, time.Duration(0)
		look := func() (live int) {
			for name, e := range r.entries {
				switch since, was := paused[name]; {
				case e.Building != nil && e.Building.State == catalog.Promoting && !was:
					paused[name] = time.Now()
				case was && (e.Building == nil || e.Building.State != catalog.Promoting):
					most = max(most, time.Since(since))
					delete(paused, name)
				}
				if e.Building == nil {
					live++
				}
			}
			return live
		}
		begun, polled := time.Now(), time.Time{}
		for look() < projections && time.Since(begun) < 10*time.Minute {
			if time.Since(polled) >= 100*time.Millisecond {
				polled = time.Now()
				for _, p := range r.pods {
					r.poll(p)
				}
				r.work(0, 0)
			}
			r.coordinators[0].step()
			<-time.After(request / 2) // A request, and then its answer.
		}
		if live := look(); live < projections || most > longest {
			t.Errorf("after %v, %d of %d projections are live, and the longest pause was %v; want at most %v", time.Since(begun), live, projections, most, longest)
		}
		t.Logf("all are live after %v, and the longest pause was %v", time.Since(begun), most)
	})
}
