package leader

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Options are what an elector reports to. The zero value reports to nobody.
type Options struct {
	Logger zerolog.Logger
	// Registerer receives penstock_publisher_leader and
	// penstock_publisher_terms_total{reason}.
	Registerer prometheus.Registerer
	// Heartbeat, if not nil, is called after every answered or failed request to
	// the lock store: the election loop makes progress.
	Heartbeat func()
}

// Elector runs work in terms of leadership.
type Elector struct{}

// New makes an elector on lock, which must not be shared with another.
func New(lock resourcelock.Interface, config Config, options Options) (*Elector, error) {
	panic("pending")
}

// NewAlone makes an elector without a lock: it leads at once, for as long as it
// runs. Only the epoch keeps two such processes from corrupting the checkpoint.
func NewAlone(identity string, config Config, options Options) (*Elector, error) {
	panic("pending")
}

// Run takes part in the election and runs work in one term after the other, never
// two at once, until ctx ends: the work has then ended, and the lease is given up.
// It returns nil, or [ErrWorkerStuck] or [ErrElectorStuck]. It is called once.
func (e *Elector) Run(ctx context.Context, work Work) error { panic("pending") }

// Alive fails where the lease is nominally held and was not renewed for longer
// than its duration: the election is deadlocked, and the process wants a restart.
// It is meant for /livez.
func (e *Elector) Alive() error { panic("pending") }

// Leader is the identity of the leader that was observed last, empty where none
// was.
func (e *Elector) Leader() string { panic("pending") }
