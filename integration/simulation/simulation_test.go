package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

// length is the virtual time in which writers write and faults strike.
const length = 5 * time.Minute

// TestHistories runs random histories. The environment chooses which (make simulate):
//
//	SEEDS=FIRST..LAST   the seeds; 30 by default
//	FOR=8h              from the first seed on, as many as begin in this time
//	TIMES=N             each seed N times, and in how many it fails
//	SHRINK=yes          remove faults while the history still fails
func TestHistories(t *testing.T) {
	first, last := seeds(t)
	var end time.Time
	if text := os.Getenv("FOR"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("FOR is %q: use a duration such as 8h", text)
		}
		end, last = time.Now().Add(d), first+1<<32
	}
	var total tally
	began := time.Now()
	defer func() { total.print(time.Since(began)) }()
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, parallel())
	for seed := first; seed <= last && (end.IsZero() || time.Now().Before(end)); seed++ {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			t.Run(fmt.Sprint(seed), func(t *testing.T) { total.add(check(t, NewPlan(seed, length))) })
		})
	}
}

// TestPlansThatFailedOnce runs the histories that have shown a defect. Their plans are data in
// testdata/failed, because a seed's plan can change. The name of each file is its defect.
func TestPlansThatFailedOnce(t *testing.T) {
	if os.Getenv("SEEDS") != "" || os.Getenv("FOR") != "" {
		t.Skip("runs without SEEDS and FOR")
	}
	files, err := filepath.Glob("testdata/failed/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := new(Plan)
			if err := json.Unmarshal(text, p); err != nil {
				t.Fatal(err)
			}
			check(t, p)
		})
	}
}

// parallel is how many histories run at once.
func parallel() int {
	if n, err := strconv.Atoi(os.Getenv("PARALLEL")); err == nil && n > 0 {
		return n
	}
	return 2
}

// check runs a plan, and reports each breach with the command that repeats it.
func check(t *testing.T, p *Plan) *Result {
	t.Helper()
	times, _ := strconv.Atoi(os.Getenv("TIMES"))
	times = max(times, 1)
	failures := 0
	var result *Result
	for range times {
		r := simulate(t, p)
		if r == nil || len(r.Breaches) > 0 || result == nil {
			result = r
		}
		if r == nil || len(r.Breaches) > 0 {
			failures++
		}
	}
	if failures == 0 {
		return result
	}
	if os.Getenv("SHRINK") != "" {
		p = Shrink(p, func(p *Plan) bool {
			r := simulate(t, p)
			return r == nil || len(r.Breaches) > 0
		})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nbroke its promises in %d of %d runs; again: make simulate SEEDS=%d SHRINK=yes\n", p, failures, times, p.Seed)
	for _, f := range p.Faults {
		fmt.Fprintf(&text, "  %s\n", f)
	}
	if result != nil {
		for _, b := range result.Breaches {
			fmt.Fprintf(&text, "%s\n", b)
		}
		fmt.Fprintf(&text, "timeline: %s\n", save(p, result.History))
	}
	// The plan goes to testdata/failed with the mend.
	if plan, err := json.Marshal(p); err == nil {
		fmt.Fprintf(&text, "plan: %s\n", plan)
	}
	t.Error(text.String())
	return result
}

// save writes the timeline to a file, and returns its path or why it was not written.
func save(p *Plan, h *History) string {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("penstock-history-%d.txt", p.Seed))
	f, err := os.Create(path)
	if err == nil {
		_, err = h.WriteTo(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return err.Error()
	}
	return path
}

// simulate runs a plan in a bubble. It returns nil if the history itself could not run.
func simulate(t *testing.T, p *Plan) *Result {
	t.Helper()
	var result *Result
	var history History
	describe := func() string { return p.String() + "\ntimeline: " + save(p, &history) }
	virtual.Run(t, describe, func(t *testing.T) {
		t.Helper()
		r, err := Run(t.Context(), p, &history, t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", p, err)
			return
		}
		result = r
	})
	return result
}

// seeds reads SEEDS.
func seeds(t *testing.T) (first, last uint64) {
	t.Helper()
	text := os.Getenv("SEEDS")
	if text == "" {
		text = "1..30"
	}
	from, to, ranged := strings.Cut(text, "..")
	if !ranged {
		to = from
	}
	var err error
	if first, err = strconv.ParseUint(from, 10, 64); err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil {
		t.Fatalf("SEEDS is %q: use FIRST..LAST", text)
	}
	return first, last
}

// tally adds up histories.
type tally struct {
	mu        sync.Mutex
	histories int
	events    int
	answers   int
	virtual   time.Duration
	faults    map[string]int
	slowest   time.Duration
}

func (c *tally) add(r *Result) {
	if r == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.histories++
	c.events += r.Events
	c.answers += r.Answers
	c.virtual += r.Virtual
	c.slowest = max(c.slowest, r.Settled)
	if c.faults == nil {
		c.faults = make(map[string]int)
	}
	for _, f := range r.Plan.Faults {
		c.faults[f.Kind]++
	}
}

// print prints the sums and the faults of each kind.
func (c *tally) print(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Printf("%d histories with %d events, %d answers of /applied and %v of virtual time in %v (%.1f a minute), each held against %d promises; the slowest settled in %v\n",
		c.histories, c.events, c.answers, c.virtual.Round(time.Second), took.Round(time.Second), float64(c.histories)/took.Minutes(), len(promises), c.slowest.Round(time.Second))
	for _, kind := range slices.Sorted(maps.Keys(faultKinds)) {
		fmt.Printf("  %6d  %s\n", c.faults[kind], kind)
	}
}
