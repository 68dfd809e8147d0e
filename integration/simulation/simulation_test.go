package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHistories runs histories of random seeds. PENSTOCK_SEEDS=FIRST..LAST chooses others.
func TestHistories(t *testing.T) {
	first, last := seeds(t, "1..4")
	length := 5 * time.Minute
	if text := os.Getenv("PENSTOCK_LENGTH"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			p := NewPlan(seed, length)
			simulate(t, p)
			t.Logf("%s: %v", p, time.Since(begun).Round(10*time.Millisecond))
		})
	}
}

// simulate runs a plan and reports breaches with the command that repeats it.
func simulate(t *testing.T, p *Plan) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), p, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d events, %v of virtual time, settled after %v", r.Events, r.Virtual, r.Settled)
		if len(r.Breaches) == 0 {
			return
		}
		for _, b := range r.Breaches {
			t.Error(b)
		}
		path := filepath.Join(os.TempDir(), fmt.Sprintf("penstock-history-%d.txt", p.Seed))
		if f, err := os.Create(path); err == nil {
			_, _ = r.History.WriteTo(f)
			_ = f.Close()
		}
		t.Errorf("timeline: %s", path)
	})
}

func seeds(t *testing.T, otherwise string) (first, last uint64) {
	t.Helper()
	text := os.Getenv("PENSTOCK_SEEDS")
	if text == "" {
		text = otherwise
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
		t.Fatalf("PENSTOCK_SEEDS is %q: use FIRST..LAST", text)
	}
	return first, last
}
