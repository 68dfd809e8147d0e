package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// logEnd is how many bytes of a log an error quotes.
const logEnd = 2 << 10

// logs returns the last lines of the processes' logs.
func (e *environment) logs(processes []*harness.Process) string {
	var b strings.Builder
	for _, p := range processes {
		text, err := os.ReadFile(p.Log)
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", p.Name, text[max(0, len(text)-logEnd):])
	}
	return b.String()
}

// profileSeconds is the duration of a CPU profile. The profile of a shorter measurement
// includes idle time.
const (
	profileSeconds      = 5
	profileSecondsShort = 1
)

// profiling takes the profiles of processes while they are measured. A nil profiling takes
// none.
type profiling struct {
	group sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

// profile starts a CPU profile of each process. After it, profile takes a heap profile,
// which also has all allocations since the start.
func (e *environment) profile(ctx context.Context, processes []*harness.Process) *profiling {
	if e.Profiles == "" {
		return nil
	}
	seconds := profileSeconds
	if e.Short {
		seconds = profileSecondsShort
	}
	p := &profiling{}
	row := filepath.Join(e.Profiles, strings.ReplaceAll(e.row, "/", "-"))
	// Profile this process too: the stand-ins and the measurement use the same cores.
	p.group.Go(func() { p.note(profileSelf(ctx, time.Duration(seconds)*time.Second, row+".bench.cpu.pprof")) })
	for _, process := range processes {
		p.group.Go(func() {
			name := row + "." + process.Name
			err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", process.Admin, seconds), name+".cpu.pprof")
			if err == nil {
				err = fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/heap", process.Admin), name+".heap.pprof")
			}
			if err != nil {
				p.note(fmt.Errorf("profile %s: %w", process.Name, err))
			}
		})
	}
	return p
}

func (p *profiling) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// profileSelf writes a CPU profile of this process.
func profileSelf(ctx context.Context, during time.Duration, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the profile of the stand-ins: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.Join(fmt.Errorf("profile the stand-ins: %w", err), out.Close())
	}
	timer := time.NewTimer(during)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	return out.Close()
}

// wait waits until all profiles are written.
func (p *profiling) wait() error {
	if p == nil {
		return nil
	}
	p.group.Wait()
	return errors.Join(p.errs...)
}

func fetch(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}
