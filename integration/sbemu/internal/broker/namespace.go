package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Namespace holds the entities. Their names are not case-sensitive.
type Namespace struct {
	limits Limits

	mu     sync.RWMutex
	byName map[string]*Destination
	order  []*Destination
}

// NewNamespace returns a namespace without entities and without limits.
func NewNamespace() *Namespace { return NewLimitedNamespace(Limits{}) }

// NewLimitedNamespace returns a namespace without entities.
func NewLimitedNamespace(l Limits) *Namespace {
	return &Namespace{limits: l, byName: make(map[string]*Destination)}
}

// CreateTopic adds a topic with its subscriptions.
func (n *Namespace) CreateTopic(cfg TopicConfig) error {
	if err := n.limits.apply(cfg.Name, &cfg.IntakeConfig); err != nil {
		return err
	}

	return n.add(newTopic(cfg, n.forward))
}

// CreateQueue adds a queue.
func (n *Namespace) CreateQueue(cfg StandaloneConfig) error {
	if err := n.limits.apply(cfg.Name, &cfg.IntakeConfig); err != nil {
		return err
	}

	return n.add(newStandalone(cfg, n.forward))
}

func (n *Namespace) add(d *Destination) error {
	n.mu.Lock()
	defer n.mu.Unlock()

	key := strings.ToLower(d.path)
	if n.byName[key] != nil {
		return fmt.Errorf("entity %q exists already", d.path)
	}

	if most := n.limits.Entities; most > 0 && len(n.order) >= most {
		return fmt.Errorf("create %q: a namespace has up to %d queues and topics", d.path, most)
	}

	n.byName[key] = d
	n.order = append(n.order, d)

	return nil
}

// Destination returns the topic or queue of a name, or nil.
func (n *Namespace) Destination(name string) *Destination {
	n.mu.RLock()
	defer n.mu.RUnlock()

	return n.byName[strings.ToLower(name)]
}

// Exists reports whether a path names an entity that can be sent to or received from.
func (n *Namespace) Exists(path string) bool {
	if n.Destination(path) != nil {
		return true
	}

	_, err := n.Queue(path)

	return err == nil
}

// Destinations returns all topics and queues in the order of their creation.
func (n *Namespace) Destinations() []*Destination {
	n.mu.RLock()
	defer n.mu.RUnlock()

	return append([]*Destination(nil), n.order...)
}

// Queue returns the queue at a path: a queue, a subscription ("topic/Subscriptions/name")
// or a sub-queue of either.
func (n *Namespace) Queue(path string) (*Queue, *wire.Error) {
	sub := func(q *Queue) *Queue { return q }
	rest := path

	if before, ok := cutSuffixFold(path, "/$transfer/$deadletterqueue"); ok {
		rest, sub = before, func(q *Queue) *Queue { return q.transfer }
	} else if before, ok := cutSuffixFold(path, "/$deadletterqueue"); ok {
		rest, sub = before, func(q *Queue) *Queue { return q.deadLetter }
	}

	q := n.queue(rest)
	if q == nil {
		return nil, errDeleted(path)
	}

	return sub(q), nil
}

func (n *Namespace) queue(path string) *Queue {
	lower := strings.ToLower(path)

	if topic, sub, ok := strings.Cut(lower, "/subscriptions/"); ok {
		if d := n.Destination(topic); d != nil && d.IsTopic() {
			if s := d.Subscription(sub); s != nil {
				return s.Queue
			}
		}

		return nil
	}

	if d := n.Destination(path); d != nil {
		return d.Direct()
	}

	return nil
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}

	return s[:len(s)-len(suffix)], true
}

// Close closes all entities.
func (n *Namespace) Close() {
	for _, d := range n.Destinations() {
		d.Close(wire.Errorf(CondConnectionForced, "The service is closing."))
	}
}

// forward sends a message to another entity.
func (n *Namespace) forward(target string, m *message.Message) *wire.Error {
	d := n.Destination(target)
	if d == nil {
		return errDeleted(target)
	}

	return d.Send([]*message.Message{m})
}

// Delete removes a topic or queue and reports whether it existed. It detaches the
// receivers; the caller must detach the senders.
func (n *Namespace) Delete(name string) bool {
	key := strings.ToLower(name)

	n.mu.Lock()

	d := n.byName[key]
	delete(n.byName, key)
	n.order = slices.DeleteFunc(n.order, func(o *Destination) bool { return o == d })
	n.mu.Unlock()

	if d == nil {
		return false
	}

	d.Close(errDeleted(d.path))

	return true
}
