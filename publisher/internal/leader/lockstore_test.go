package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lockStore is the record of one lock, with compare-and-swap like that of the API server.
type lockStore struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	// onWrite, if not nil, is called for every accepted write; watch sets it.
	onWrite func(resourcelock.LeaderElectionRecord)
	// conflicts is how many releases are refused as conflicts.
	conflicts int
}

var leaseKind = schema.GroupResource{Resource: "leases"}

func (s *lockStore) read() (resourcelock.LeaderElectionRecord, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record == nil {
		return resourcelock.LeaderElectionRecord{}, 0, apierrors.NewNotFound(leaseKind, "lease")
	}
	return *s.record, s.version, nil
}

func (s *lockStore) watch(onWrite func(resourcelock.LeaderElectionRecord)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onWrite = onWrite
}

func (s *lockStore) holder() string {
	record, _, _ := s.read()
	return record.HolderIdentity
}

// remove deletes the record, like an operator who deletes a Lease.
func (s *lockStore) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = nil
}

// write stores record if the version matches; version 0 creates it.
func (s *lockStore) write(record resourcelock.LeaderElectionRecord, version int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case version == 0 && s.record != nil:
		return 0, apierrors.NewAlreadyExists(leaseKind, "lease")
	case version == 0:
	case s.record == nil:
		return 0, apierrors.NewNotFound(leaseKind, "lease")
	case version != s.version:
		return 0, apierrors.NewConflict(leaseKind, "lease", errors.New("version was overtaken"))
	case record.HolderIdentity == "" && s.conflicts > 0:
		s.conflicts--
		return 0, apierrors.NewConflict(leaseKind, "lease", errors.New("conflict by order of the test"))
	}
	s.version++
	s.record = &record
	if s.onWrite != nil {
		s.onWrite(record)
	}
	return s.version, nil
}

// contact is the state of the connection between a process and the lock store.
type contact int

const (
	connected contact = iota
	// silent loses requests: they hang until their context ends.
	silent
	// refusing fails requests at once.
	refusing
	// deaf delivers requests and loses their answers.
	deaf
)

// link is one process's connection to the lock store.
type link struct {
	mu    sync.Mutex
	state contact
}

func (l *link) set(state contact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
}

func (l *link) get() contact {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

var errRefused = errors.New("connection refused")

// call carries a request to the store and returns its answer.
func (l *link) call(ctx context.Context, request func() error) error {
	switch l.get() {
	case refusing:
		return errRefused
	case connected, deaf:
		if err := request(); l.get() == connected {
			return err
		}
	case silent:
	}
	<-ctx.Done()
	return ctx.Err()
}

// memoryLock is a resourcelock.Interface on a lockStore over a link.
type memoryLock struct {
	store    *lockStore
	link     *link
	identity string
	version  int
}

func (m *memoryLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record resourcelock.LeaderElectionRecord
	var version int
	err := m.link.call(ctx, func() (err error) {
		record, version, err = m.store.read()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	m.version = version
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (m *memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.write(ctx, record, 0)
}

func (m *memoryLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.write(ctx, record, m.version)
}

func (m *memoryLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, version int) error {
	var written int
	err := m.link.call(ctx, func() (err error) {
		w, err := m.store.write(record, version)
		written = w
		return err
	})
	if err == nil {
		m.version = written
	}
	return err
}

func (m *memoryLock) RecordEvent(string) {}
func (m *memoryLock) Identity() string   { return m.identity }
func (m *memoryLock) Describe() string   { return "memory/lease" }
