package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// logEnd is how much of a log an error quotes.
const logEnd = 2 << 10

// logs are the last lines of the processes' logs.
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

// profileSeconds is how long a CPU profile takes. A measurement that is shorter has some
// idle time in its profile.
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

// profile starts a CPU profile of each process. When it is complete, a heap profile
// follows, which also holds all allocations since the start.
func (e *environment) profile(ctx context.Context, processes []*harness.Process) *profiling {
	if e.Profiles == "" {
		return nil
	}
	seconds := profileSeconds
	if e.Short {
		seconds = profileSecondsShort
	}
	p := &profiling{}
	for _, process := range processes {
		p.group.Go(func() {
			name := filepath.Join(e.Profiles, strings.ReplaceAll(e.row, "/", "-")+"."+process.Name)
			err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", process.Admin, seconds), name+".cpu.pprof")
			if err == nil {
				err = fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/heap", process.Admin), name+".heap.pprof")
			}
			if err != nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.errs = append(p.errs, fmt.Errorf("profile %s: %w", process.Name, err))
			}
		})
	}
	return p
}

// wait returns when all profiles are written.
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
