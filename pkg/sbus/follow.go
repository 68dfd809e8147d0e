package sbus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

// tryTimeout bounds one attempt to connect with a new key.
const tryTimeout = 20 * time.Second

// signer is the connection string that signs claims. It can change while connections are
// open: their claims stay valid until they expire.
type signer struct {
	mu      sync.Mutex
	current string
	// changed is closed, and made anew, when current changes.
	changed chan struct{}
}

func newSigner(connectionString string) *signer {
	return &signer{current: connectionString, changed: make(chan struct{})}
}

// get returns the connection string, and a channel that is closed when there is another.
func (s *signer) get() (connectionString string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed
}

func (s *signer) set(connectionString string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = connectionString
	close(s.changed)
	s.changed = make(chan struct{})
}

// Follow reads the file of the connection string again until ctx ends. Clients and tokens
// that are made later use its new key. Before that, try connects to the namespace with the
// new key; if it fails, the old key stays in use: a mistyped key would end all connections
// for nothing. Without such a file, Follow returns immediately.
func (n *Namespace) Follow(ctx context.Context, try func(context.Context, *Namespace) error, logger zerolog.Logger) {
	if n.config.ConnectionStringFile == "" {
		return
	}
	adopt := func(ctx context.Context, connectionString string) error { return n.adopt(ctx, connectionString, try) }
	secret.Follow(ctx, n.config.ConnectionStringFile, string(n.config.ConnectionString), adopt, logger)
}

// adopt uses the key of a new connection string. It refuses one of another namespace or
// entity: the checkpoint and the read models belong to this one.
func (n *Namespace) adopt(ctx context.Context, connectionString string, try func(context.Context, *Namespace) error) error {
	next := n.config
	next.ConnectionString = secret.Text(connectionString)
	if err := next.Check(); err != nil {
		return err
	}
	if next.Host() != n.config.Host() || isEmulator(connectionString) != n.Plain() {
		return fmt.Errorf("it is a connection string of %s: only the key of %s can change without a restart", next.Host(), n.config.Host())
	}
	changed, err := Open(next)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if err := try(ctx, changed); err != nil {
		return fmt.Errorf("Service Bus does not accept the key: %w", err) //nolint:staticcheck // a name
	}
	n.signer.set(connectionString)
	return nil
}

// Changed returns a channel that is closed when the key has changed. A client that was made
// before keeps the old key.
func (n *Namespace) Changed() <-chan struct{} {
	_, changed := n.signer.get()
	return changed
}
