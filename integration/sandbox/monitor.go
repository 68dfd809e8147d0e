package sandbox

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// sampleEvery is the interval at which the services are scraped and the view is refreshed.
const sampleEvery = 250 * time.Millisecond

// publisherPrefix starts the name of every publisher.
const publisherPrefix = "publisher-"

// monitor makes statuses from the data of the services, the broker and the observer.
type monitor struct {
	pipeline *harness.Pipeline
	backend  *harness.Embedded
	observer *verify.Observer
	total    int
	start    time.Time
	// stored counts the events that were stored or are about to be.
	stored atomic.Int64

	mu     sync.Mutex
	phase  Phase
	leader string
	epoch  int64
	// sessions and duplicates are those of the last scrape, by process, so that a killed
	// process's count is kept.
	sessions, duplicates map[string]int
	history              []sample
	// rebuilds are the last known states, readers those of the projections. Both are empty
	// before the second act.
	rebuilds []RebuildStatus
	readers  map[string]*verify.Reader
}

// sample is how many events were projected at a time.
type sample struct {
	at        time.Time
	projected int
}

func (m *monitor) setPhase(p Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = p
}

func (m *monitor) setReaders(readers map[string]*verify.Reader) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readers = readers
}

func (m *monitor) setRebuilds(s []RebuildStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rebuilds = s
}

// run shows a status at each interval until ctx ends.
func (m *monitor) run(ctx context.Context, view *View) {
	poll.Every(ctx, sampleEvery, func() {
		m.scrape(ctx)
		view.Show(m.status())
	})
}

func (m *monitor) scrape(ctx context.Context) {
	leader, epoch := "", int64(0)
	sessions := make(map[string]int)
	for _, process := range m.pipeline.Running() {
		metrics, err := process.Metrics(ctx)
		if err != nil {
			continue
		}
		if strings.HasPrefix(process.Name, publisherPrefix) {
			if metrics.Sum("penstock_publisher_leader") == 1 {
				leader, epoch = process.Name, int64(metrics.Sum("penstock_publisher_epoch"))
			}
			continue
		}
		sessions[process.Name] = int(metrics.Sum("penstock_projector_sessions_active"))
		m.mu.Lock()
		m.duplicates[process.Name] = int(metrics.Sum("penstock_projector_events_total", "outcome", "duplicate"))
		m.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leader, m.sessions = leader, sessions
	if epoch > 0 {
		m.epoch = epoch
	}
}

func (m *monitor) status() Status {
	published, dropped := m.backend.TopicCounts()
	projected := m.observer.Projected()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.history = append(m.history, sample{now, projected})
	for len(m.history) > 1 && now.Sub(m.history[0].at) > time.Second {
		m.history = m.history[1:]
	}
	s := Status{
		Phase: m.phase, Elapsed: now.Sub(m.start), Leader: m.leader, Epoch: m.epoch,
		Total: m.total, Stored: int(m.stored.Load()), Published: published,
		Projected: projected, ProjectedRate: projected - m.history[0].projected,
		DuplicatesDropped: dropped,
	}
	for _, rebuild := range m.rebuilds {
		rebuild.Reads = m.readers[rebuild.Name].Reads()
		s.Rebuilds = append(s.Rebuilds, rebuild)
	}
	for _, n := range m.sessions {
		s.Sessions += n
	}
	for _, n := range m.duplicates {
		s.DuplicatesMet += n
	}
	return s
}
