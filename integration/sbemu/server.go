package sbemu

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/atom"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/front"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Server is an emulated namespace. Its methods are safe for concurrent use.
type Server struct {
	cfg       Config
	namespace *broker.Namespace
	front     *front.Server

	admin *atom.Handler
	// keys are the currently valid shared access keys.
	keys atomic.Pointer[[]access.Policy]

	mu       sync.Mutex
	listener net.Listener
	http     *http.Server
	serving  sync.WaitGroup
}

// ErrStarted says that the server was already started.
var ErrStarted = errors.New("server was started before")

// New returns a server for the namespace that cfg declares.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("validate configuration: %w", err)
	}

	cfg.Address = cmp.Or(cfg.Address, DefaultAddress)
	cfg.AcceptTimeout = cmp.Or(cfg.AcceptTimeout, DefaultAcceptTimeout)

	if len(cfg.Policies) == 0 {
		cfg.Policies = []Policy{{Name: DefaultPolicy, Key: DefaultKey, Manage: true}}
	}

	s := &Server{cfg: cfg, namespace: broker.NewLimitedNamespace(broker.Limits{
		Entities: cfg.Limits.Entities, TTL: cfg.Limits.TTL,
		DuplicateDetectionWindow: cfg.Limits.DuplicateDetectionWindow, Unpartitioned: cfg.Limits.Unpartitioned,
	})}

	for _, t := range cfg.Topics {
		if err := s.CreateTopic(t); err != nil {
			return nil, err
		}
	}

	for _, q := range cfg.Queues {
		if err := s.CreateQueue(q); err != nil {
			return nil, err
		}
	}

	opts := front.Options{Namespace: s.namespace, AcceptTimeout: cfg.AcceptTimeout, Policies: s.policies, MaxConnections: cfg.Limits.Connections}
	keys := []access.Policy{}
	for _, p := range cfg.Policies {
		keys = append(keys, access.Policy{Name: p.Name, Key: p.Key, Rights: p.rights()})
		if p.SecondaryKey != "" {
			keys = append(keys, access.Policy{Name: p.Name, Key: p.SecondaryKey, Rights: p.rights()})
		}
	}
	s.keys.Store(&keys)

	s.front = front.NewServer(opts)
	s.admin = atom.NewHandler(atom.Options{
		Namespace: s.namespace,
		Policies:  opts.Policies,
		Premium:   cfg.Premium,
		DetachSenders: func(entity string, reason *wire.Error) {
			s.front.DetachSenders(entity, reason)
		},
	})

	return s, nil
}

func (s *Server) policies() []access.Policy { return *s.keys.Load() }

// RegenerateKey replaces a key of a policy. From then on, claims that are signed with the
// replaced key are refused. A connection keeps its rights until its claim ends.
func (s *Server) RegenerateKey(policy, old, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	keys := slices.Clone(s.policies())
	for i := range keys {
		if keys[i].Name == policy && keys[i].Key == old {
			keys[i].Key = key
			s.keys.Store(&keys)

			return nil
		}
	}

	return fmt.Errorf("policy %q does not have the key that is to be replaced", policy)
}

// AdminHandler returns the handler of the namespace's management API, which the SDKs'
// administration clients use over HTTPS.
func (s *Server) AdminHandler() http.Handler { return s.admin }

func (p Policy) rights() access.Rights {
	var r access.Rights

	if p.Listen {
		r |= access.Listen
	}

	if p.Send {
		r |= access.Send
	}

	if p.Manage {
		r = access.All
	}

	return r
}

// CreateTopic adds a topic.
func (s *Server) CreateTopic(t Topic) error {
	cfg := broker.TopicConfig{
		Name: t.Name,
		IntakeConfig: broker.IntakeConfig{
			DuplicateDetectionWindow: t.DuplicateDetectionWindow,
			Partitioned:              t.Partitioned,
			MaxMessageSize:           t.MaxMessageSize,
			MaxBatchSize:             t.MaxBatchSize,
			DefaultTTL:               t.DefaultTTL,
			Disabled:                 t.Disabled,
			Record:                   t.Record,
		},
	}

	for _, sub := range t.Subscriptions {
		rules, err := compile(sub.Rules)
		if err != nil {
			return fmt.Errorf("create subscription %q of topic %q: %w", sub.Name, t.Name, err)
		}

		cfg.Subscriptions = append(cfg.Subscriptions, broker.SubscriptionConfig{
			Name: sub.Name,
			QueueConfig: broker.QueueConfig{
				RequiresSession:   sub.RequiresSession,
				LockDuration:      sub.LockDuration,
				MaxDeliveryCount:  sub.MaxDeliveryCount,
				DefaultTTL:        sub.DefaultTTL,
				DeadLetterExpired: sub.DeadLetterExpired,
				Disabled:          sub.Disabled,

				ForwardTo:            sub.ForwardTo,
				ForwardDeadLettersTo: sub.ForwardDeadLettersTo,
			},
			Rules: rules,
		})
	}

	if err := s.namespace.CreateTopic(cfg); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}

	return nil
}

// CreateQueue adds a queue.
func (s *Server) CreateQueue(q Queue) error {
	err := s.namespace.CreateQueue(broker.StandaloneConfig{
		Name: q.Name,
		IntakeConfig: broker.IntakeConfig{
			DuplicateDetectionWindow: q.DuplicateDetectionWindow,
			Partitioned:              q.Partitioned,
			MaxMessageSize:           q.MaxMessageSize,
			MaxBatchSize:             q.MaxBatchSize,
			DefaultTTL:               q.DefaultTTL,
			Disabled:                 q.Disabled,
			Record:                   q.Record,
		},
		QueueConfig: broker.QueueConfig{
			RequiresSession:   q.RequiresSession,
			LockDuration:      q.LockDuration,
			MaxDeliveryCount:  q.MaxDeliveryCount,
			DeadLetterExpired: q.DeadLetterExpired,
			Disabled:          q.Disabled,

			ForwardTo:            q.ForwardTo,
			ForwardDeadLettersTo: q.ForwardDeadLettersTo,
		},
	})
	if err != nil {
		return fmt.Errorf("create queue: %w", err)
	}

	return nil
}

// Start starts serving and returns. [Server.Close] stops it.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.listener != nil {
		return ErrStarted
	}

	l := s.cfg.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", s.cfg.Address); err != nil {
			return fmt.Errorf("listen for AMQP: %w", err)
		}
	}

	s.listener = l
	s.serving.Go(func() { _ = s.front.Serve(l) })

	if s.cfg.TLS != nil {
		return s.startTLS(s.cfg.TLS)
	}

	return nil
}

// startTLS starts serving AMQP and the management API over TLS. The caller holds the lock.
func (s *Server) startTLS(cfg *TLS) error {
	if cfg.Address != "" {
		l, err := tls.Listen("tcp", cfg.Address, cfg.Config)
		if err != nil {
			return fmt.Errorf("listen for AMQP over TLS: %w", err)
		}

		s.serving.Go(func() { _ = s.front.Serve(l) })
	}

	if cfg.AdminAddress != "" {
		l, err := tls.Listen("tcp", cfg.AdminAddress, cfg.Config)
		if err != nil {
			return fmt.Errorf("listen for management: %w", err)
		}

		s.http = &http.Server{Handler: s.WebHandler(), ReadHeaderTimeout: time.Minute}
		s.serving.Go(func() { _ = s.http.Serve(l) })
	}

	return nil
}

// Close ends all connections, stops serving, and waits until everything has stopped.
func (s *Server) Close() error {
	s.mu.Lock()
	h := s.http
	s.mu.Unlock()

	var stop error
	if h != nil {
		stop = h.Close()
	}

	s.admin.Close()

	err := errors.Join(stop, s.front.Close())
	s.namespace.Close()
	s.serving.Wait()

	if err != nil {
		return fmt.Errorf("close server: %w", err)
	}

	return nil
}

// Addr returns the address of the listener; nil before [Server.Start].
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.listener == nil {
		return nil
	}

	return s.listener.Addr()
}

// ConnectionString returns a connection string with the first policy. It sets
// UseDevelopmentEmulator, so the SDKs use plain AMQP.
func (s *Server) ConnectionString() string {
	return s.ConnectionStringFor(s.cfg.Policies[0])
}

// ConnectionStringFor returns a connection string with a policy.
func (s *Server) ConnectionStringFor(p Policy) string {
	host := s.cfg.Address

	if addr := s.Addr(); addr != nil {
		host = addr.String()
	}

	return strings.Join([]string{
		"Endpoint=sb://" + host,
		"SharedAccessKeyName=" + p.Name,
		"SharedAccessKey=" + p.Key,
		"UseDevelopmentEmulator=true",
	}, ";")
}
