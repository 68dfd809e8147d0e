package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// poll is the interval at which a count is read. Counting is a call in this process.
const poll = 2 * time.Millisecond

// usage is the resources that a process has used so far.
type usage struct {
	cpu     time.Duration
	mallocs float64
}

func usageOf(ctx context.Context, p *harness.Process) (usage, error) {
	cpu, err := p.OS.CPUTime()
	if err != nil {
		return usage{}, err
	}
	metrics, err := p.Metrics(ctx)
	if err != nil {
		return usage{}, err
	}
	return usage{cpu: cpu, mallocs: metrics.Sum("go_memstats_mallocs_total")}, nil
}

// measured is the outcome of a measurement.
type measured struct {
	// rate is in events/s, over took.
	rate  float64
	took  time.Duration
	costs []cost
}

// measure waits until count has reached n. It measures from the last look without an event
// to the first with all events, so the start of the processes does not count. Costs are
// those after the first event was seen.
func (e *environment) measure(ctx context.Context, what string, n int, count func() int, processes ...*harness.Process) (measured, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var m meter
	for none := time.Now(); ; {
		counted, now := count(), time.Now()
		if counted <= 0 {
			none = now
		} else if m.begun.IsZero() {
			if err := m.begin(ctx, counted, none, processes); err != nil {
				return measured{}, err
			}
		}
		if counted >= n {
			return m.end(ctx, counted, now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return measured{}, fmt.Errorf("%s: %d of %d: %w; the logs say\n%s", what, counted, n, context.Cause(ctx), logs(processes))
		}
		for _, p := range processes {
			if !p.Running() {
				return measured{}, fmt.Errorf("%s has ended (%w); its log says\n%s", p.Name, p.Err(), logs(processes))
			}
		}
	}
}

// meter records what processes had used when the measurement began, and how many events had
// been counted by then.
type meter struct {
	begun     time.Time
	counted   int
	processes []*harness.Process
	before    []usage
}

func (m *meter) begin(ctx context.Context, counted int, begun time.Time, processes []*harness.Process) error {
	m.begun, m.counted, m.processes = begun, counted, processes
	for _, p := range processes {
		used, err := usageOf(ctx, p)
		if err != nil {
			return err
		}
		m.before = append(m.before, used)
	}
	return nil
}

func (m *meter) end(ctx context.Context, counted int, now time.Time) (measured, error) {
	took := now.Sub(m.begun)
	out := measured{rate: float64(counted) / took.Seconds(), took: took}
	// At least one, in case all events were there at the first look.
	events := float64(max(1, counted-m.counted))
	for i, p := range m.processes {
		used, err := usageOf(ctx, p)
		if err != nil {
			return measured{}, err
		}
		peak, err := p.OS.MaxResident()
		if err != nil {
			return measured{}, err
		}
		c := cost{
			service: service(p.Name),
			cpu:     float64((used.cpu - m.before[i].cpu).Microseconds()) / events,
			allocs:  (used.mallocs - m.before[i].mallocs) / events,
			peak:    float64(peak) / (1 << 20),
		}
		out.addCost(c)
	}
	return out, nil
}

// addCost adds up the costs of one service's processes; the peak is the largest of theirs.
func (m *measured) addCost(c cost) {
	for i := range m.costs {
		if have := &m.costs[i]; have.service == c.service {
			have.cpu, have.allocs, have.peak = have.cpu+c.cpu, have.allocs+c.allocs, max(have.peak, c.peak)
			return
		}
	}
	m.costs = append(m.costs, c)
}

// service returns a process's name without its number.
func service(process string) string {
	name, _, _ := strings.Cut(process, "-")
	return name
}

// logEnd is how many bytes of a log an error quotes.
const logEnd = 2 << 10

// logs returns the last lines of the processes' logs.
func logs(processes []*harness.Process) string {
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
