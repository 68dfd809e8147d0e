package simulation

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
//	FOR=8h              from the first seed on, as many as begin in this time; at most
//	                    those of SEEDS if it is a range
//	TIMES=N             each seed N times, and in how many it fails
//	SHRINK=yes          remove faults while the history still fails
//	PARALLEL=N          how many histories run at once; one for each core by default
//
// Histories run in child processes with one thread for Go code each: then they need less of
// the processor, differ less from run to run, and one that stands still ends only its child.
func TestHistories(t *testing.T) {
	t.Parallel()
	first, last := seeds(t)
	var end time.Time
	if text := os.Getenv("FOR"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("FOR is %q: use a duration such as 8h", text)
		}
		end = time.Now().Add(d)
	}
	var total tally
	if file := os.Getenv(childFile); file != "" {
		t.Run(fmt.Sprint(first), func(t *testing.T) { total.count(check(t, NewPlan(first, length))) })
		total.write(t, file)
		return
	}
	began := time.Now()
	defer func() { total.print(time.Since(began)) }()
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, parallel())
	for seed := first; seed <= last && (end.IsZero() || time.Now().Before(end)); seed++ {
		places <- struct{}{}
		if t.Failed() && failFast() {
			break
		}
		running.Go(func() {
			defer func() { <-places }()
			part, err := child(t, seed)
			total.add(part)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// childFile is the variable with the file into which a child process writes its tally.
const childFile = "PENSTOCK_SIMULATION_TALLY"

// child runs a history in a child process. The error says that it has failed.
func child(t *testing.T, seed uint64) (*tally, error) {
	t.Helper()
	part := new(tally)
	file := filepath.Join(t.TempDir(), "tally.json")
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHistories$", "-test.timeout=0",
		fmt.Sprintf("-test.v=%v", testing.Verbose()), fmt.Sprintf("-test.failfast=%v", failFast()))
	run.Env = append(os.Environ(), fmt.Sprintf("SEEDS=%d", seed), "FOR=", "GOMAXPROCS=1", childFile+"="+file)
	out, err := run.CombinedOutput()
	if err != nil || testing.Verbose() {
		fmt.Printf("%s", out)
	}
	if err != nil {
		err = fmt.Errorf("seed %d: %w", seed, err)
	}
	text, readErr := os.ReadFile(file)
	if readErr == nil {
		readErr = json.Unmarshal(text, part)
	}
	return part, errors.Join(err, readErr)
}

// failFast reports whether the first failed history ends the test.
func failFast() bool { return flag.Lookup("test.failfast").Value.String() == "true" }

// TestPlansThatFailedOnce runs the histories that have shown a defect. Their plans are data in
// testdata/failed, because a seed's plan can change. The name of each file is its defect.
func TestPlansThatFailedOnce(t *testing.T) {
	t.Parallel()
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
	return runtime.NumCPU()
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

// seeds reads SEEDS. With FOR, a single seed is the first of as many as the time permits.
func seeds(t *testing.T) (first, last uint64) {
	t.Helper()
	text, timed := os.Getenv("SEEDS"), os.Getenv("FOR") != ""
	switch {
	case text == "" && timed:
		text = "1"
	case text == "":
		text = "1..30"
	}
	from, to, ranged := strings.Cut(text, "..")
	switch {
	case !ranged && timed:
		to = strconv.Itoa(math.MaxInt)
	case !ranged:
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
	Histories int
	Events    int
	Answers   int
	Virtual   time.Duration
	Faults    map[string]int
	Slowest   time.Duration
}

// count adds a history.
func (c *tally) count(r *Result) {
	if r == nil {
		return
	}
	one := tally{Histories: 1, Events: r.Events, Answers: r.Answers, Virtual: r.Virtual, Slowest: r.Settled, Faults: make(map[string]int)}
	for _, f := range r.Plan.Faults {
		one.Faults[f.Kind]++
	}
	c.add(&one)
}

// add adds another tally.
func (c *tally) add(other *tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Histories += other.Histories
	c.Events += other.Events
	c.Answers += other.Answers
	c.Virtual += other.Virtual
	c.Slowest = max(c.Slowest, other.Slowest)
	if c.Faults == nil {
		c.Faults = make(map[string]int)
	}
	for kind, n := range other.Faults {
		c.Faults[kind] += n
	}
}

// write writes the tally for the parent process.
func (c *tally) write(t *testing.T, file string) {
	t.Helper()
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// print prints the sums and the faults of each kind.
func (c *tally) print(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Printf("%d histories with %d events, %d answers of /applied and %v of virtual time in %v (%.1f a minute), each held against %d promises; the slowest settled in %v\n",
		c.Histories, c.Events, c.Answers, c.Virtual.Round(time.Second), took.Round(time.Second), float64(c.Histories)/took.Minutes(), len(promises), c.Slowest.Round(time.Second))
	for _, kind := range slices.Sorted(maps.Keys(faultKinds)) {
		fmt.Printf("  %6d  %s\n", c.Faults[kind], kind)
	}
}
