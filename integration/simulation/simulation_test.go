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

	"github.com/penstock-cdc/penstock/integration/simulation/record"
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
//	RECORD=FOLDER       add the run to the record in this folder (make proof)
//	SUMMARY=FILE        write the sums to this file: go test hides the output of what passes
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
	if file := os.Getenv(childFile); file != "" {
		t.Run(fmt.Sprint(first), func(t *testing.T) { write(t, check(t, NewPlan(first, length)), file) })
		return
	}
	began := time.Now()
	keep := keeper(t, first)
	total := tally{States: make(map[uint64]bool)}
	var running sync.WaitGroup
	places := make(chan struct{}, parallel())
	ran := first
	for seed := first; seed <= last && (end.IsZero() || time.Now().Before(end)); seed++ {
		places <- struct{}{}
		if t.Failed() && failFast() {
			break
		}
		ran = seed
		running.Go(func() {
			defer func() { <-places }()
			part, err := child(t, seed)
			total.add(seed, part, err != nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	took := time.Since(began)
	total.print(took)
	keep(&total, ran, took)
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
	mu sync.Mutex
	record.Tally
	// States has a hash of each state that a fault has met, and Curve how many there were after
	// some histories.
	States map[uint64]bool
	Curve  []record.Point
	Failed []uint64
}

// add adds what a child process has counted.
func (c *tally) add(seed uint64, part *tally, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if failed {
		c.Failed = append(c.Failed, seed)
		slices.Sort(c.Failed)
	}
	c.Add(&part.Tally)
	maps.Copy(c.States, part.States)
	// The points of the curve are 1, 2, 5, 10, 20, 50 …
	for digit := c.Histories; digit > 0; digit /= 10 {
		if digit%10 > 0 && digit >= 10 {
			return
		}
		if digit == 1 || digit == 2 || digit == 5 {
			c.Curve = append(c.Curve, record.Point{Histories: c.Histories, States: len(c.States)})
		}
	}
}

// write writes the tally of a history for the parent process.
func write(t *testing.T, r *Result, file string) {
	t.Helper()
	if r == nil {
		return
	}
	c := tally{Tally: r.Tally, States: make(map[uint64]bool)}
	for _, state := range r.States {
		c.States[state] = true
	}
	text, err := json.Marshal(&c)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// print prints the sums, also to the file that SUMMARY names, and the faults of each kind.
func (c *tally) print(took time.Duration) {
	sums := fmt.Sprintf("%d histories (failed: %d) with %d events, %d answers of /applied, %d requests to MongoDB and %v of virtual time in %v (%.1f a minute), each held against %d promises; faults met %d different states; the slowest settled in %v\n",
		c.Histories, c.Failed, c.Events, c.Answers, c.Requests, c.Virtual.Round(time.Second), took.Round(time.Second), float64(c.Histories)/took.Minutes(), len(promises), len(c.States), c.Slowest.Round(time.Second))
	fmt.Print(sums)
	if file := os.Getenv("SUMMARY"); file != "" {
		if err := os.WriteFile(file, []byte(sums), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(faultKinds)) {
		fmt.Printf("  %6d  %s\n", c.Faults[kind], kind)
	}
}

// keeper returns what adds the run that begins now to the record, if RECORD names its folder.
func keeper(t *testing.T, first uint64) func(c *tally, last uint64, took time.Duration) {
	t.Helper()
	folder := os.Getenv("RECORD")
	if folder == "" {
		return func(*tally, uint64, time.Duration) {}
	}
	origin, err := record.Now()
	if err != nil {
		t.Fatal(err)
	}
	return func(c *tally, last uint64, took time.Duration) {
		curve := append(slices.Clone(c.Curve), record.Point{Histories: c.Histories, States: len(c.States)})
		run := record.Run{Origin: origin, First: first, Last: last, Failed: c.Failed, Tally: c.Tally, Took: took.Round(time.Second), States: slices.Compact(curve)}
		if err := record.Append(folder, record.RunsFile, run); err != nil {
			t.Error(err)
		}
	}
}
