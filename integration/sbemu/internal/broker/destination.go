package broker

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Filter selects messages for a subscription.
type Filter interface {
	Match(v *message.View) bool
}

// Action changes a message that a rule selected.
type Action interface {
	Apply(m *message.Message) *message.Message
}

// Destination is a topic or a queue that messages are sent to.
type Destination struct {
	path string
	send func(target string, m *message.Message) *wire.Error // forwards to another destination

	mu     sync.Mutex
	used   time.Time // when the last message was sent
	intake intake
	direct *Queue // the queue itself, nil for a topic

	sequence sequence // of a topic
	subs     []*Subscription
	pending  *Queue // of a topic: scheduled messages
	losses   Losses
}

// Losses select accepted messages that no receiver gets. A nil function selects no
// message.
type Losses struct {
	Lost    func(messageID string) bool // the message is not stored
	Expired func(messageID string) bool // the message expires at once
}

func (l *Losses) lost(m *message.Message) bool { return l.Lost != nil && l.Lost(m.ID) }

func (l *Losses) expired(m *message.Message) bool { return l.Expired != nil && l.Expired(m.ID) }

// Lose changes which messages are lost. It affects only messages accepted from now on.
func (d *Destination) Lose(change func(l *Losses)) {
	d.mu.Lock()
	defer d.mu.Unlock()

	change(&d.losses)
}

// Subscription is a queue of a topic, with rules that select its messages.
type Subscription struct {
	*Queue

	name  string
	rules []Rule
}

// Name returns the subscription's name.
func (s *Subscription) Name() string { return s.name }

func newTopic(cfg TopicConfig, send func(string, *message.Message) *wire.Error) *Destination {
	cfg.setIntakeDefaults()

	t := &Destination{path: cfg.Name, send: send, intake: newIntake(cfg.Name, cfg.IntakeConfig)}
	t.sequence.partitioned = cfg.Partitioned
	t.pending = bareQueue(cfg.Name, QueueConfig{})
	t.pending.sequence.partitioned = cfg.Partitioned
	t.pending.onDue = t.publishDue

	for _, s := range cfg.Subscriptions {
		t.subscribe(s)
	}

	return t
}

func newStandalone(cfg StandaloneConfig, send func(string, *message.Message) *wire.Error) *Destination {
	cfg.setIntakeDefaults()
	cfg.setQueueDefaults()
	cfg.QueueConfig.DefaultTTL = cfg.IntakeConfig.DefaultTTL

	return &Destination{
		path:   cfg.Name,
		send:   send,
		intake: newIntake(cfg.Name, cfg.IntakeConfig),
		direct: newQueue(cfg.Name, cfg.QueueConfig, cfg.Partitioned, send),
	}
}

// subscribe adds a subscription. The caller holds the lock, unless the destination is
// new.
func (d *Destination) subscribe(cfg SubscriptionConfig) {
	cfg.setQueueDefaults()
	cfg.DefaultTTL = shortest(cfg.DefaultTTL, d.intake.cfg.DefaultTTL)

	d.subs = append(d.subs, &Subscription{
		Queue: newQueue(d.path+"/Subscriptions/"+cfg.Name, cfg.QueueConfig, d.intake.cfg.Partitioned, d.send),
		name:  cfg.Name,
		rules: cfg.Rules,
	})
}

// Path returns the name of the topic or queue.
func (d *Destination) Path() string { return d.path }

// IsTopic reports whether the destination is a topic.
func (d *Destination) IsTopic() bool { return d.direct == nil }

// Direct returns the [Queue] of a destination that is a queue, nil for a topic.
func (d *Destination) Direct() *Queue { return d.direct }

// Config returns the intake configuration.
func (d *Destination) Config() IntakeConfig {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.intake.cfg
}

// Subscriptions returns a topic's subscriptions.
func (d *Destination) Subscriptions() []*Subscription {
	d.mu.Lock()
	defer d.mu.Unlock()

	return slices.Clone(d.subs)
}

// Subscription returns a topic's subscription by its name, or nil.
func (d *Destination) Subscription(name string) *Subscription {
	d.mu.Lock()
	defer d.mu.Unlock()

	for _, s := range d.subs {
		if strings.EqualFold(s.name, name) {
			return s
		}
	}

	return nil
}

// Send accepts all messages that were sent together, or none of them. Duplicates are
// accepted and dropped.
func (d *Destination) Send(msgs []*message.Message) *wire.Error {
	d.mu.Lock()
	defer d.mu.Unlock()

	if err := d.refuse(msgs); err != nil {
		return err
	}

	now := time.Now()
	d.used = now

	for _, m := range msgs {
		if d.intake.duplicate(m, now) {
			continue
		}

		if m.ScheduledAt.After(now) {
			d.intake.record.accept(m, d.hold(m), now)
		} else {
			d.intake.record.accept(m, d.publish(m, now), now)
		}
	}

	return nil
}

// refuse returns why messages that were sent together are not accepted, or nil. The
// caller holds the lock.
func (d *Destination) refuse(msgs []*message.Message) *wire.Error {
	if err := d.Closed(); err != nil {
		return err
	}

	return d.intake.refuse(msgs, d.direct != nil && d.direct.RequiresSession())
}

// Schedule accepts messages for later. It returns the sequence numbers by which they can
// be cancelled.
func (d *Destination) Schedule(msgs []*message.Message) ([]int64, *wire.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if err := d.refuse(msgs); err != nil {
		return nil, err
	}

	now := time.Now()
	d.used = now
	out := make([]int64, len(msgs))

	for i, m := range msgs {
		if d.intake.duplicate(m, now) {
			continue
		}

		out[i] = d.hold(m)
		d.intake.record.accept(m, out[i], now)
	}

	return out, nil
}

// Cancel drops scheduled messages. If one is missing, it drops none.
func (d *Destination) Cancel(seqs []int64) *wire.Error {
	if d.direct != nil {
		return d.direct.cancel(seqs)
	}

	return d.pending.cancel(seqs)
}

func (d *Destination) hold(m *message.Message) int64 {
	if d.direct != nil {
		return d.direct.hold(m)
	}

	return d.pending.hold(m)
}

// publish enqueues a message in the queue or in the subscriptions that select it.
func (d *Destination) publish(m *message.Message, now time.Time) int64 {
	var expiresAt time.Time
	if d.losses.expired(m) {
		expiresAt = now
	}

	lost := d.losses.lost(m)

	if d.direct != nil {
		if lost {
			return 0
		}

		return d.direct.enqueue(m, 0, now, expiresAt)
	}

	seq := d.sequence.next(partitionKey(m))
	if lost {
		return seq
	}

	var view *message.View

	for _, s := range d.subs {
		if s.rules != nil {
			if view == nil {
				view = message.NewView(m)
			}

			s.selected(view, m, seq, now, expiresAt)

			continue
		}

		s.enqueue(m, seq, now, expiresAt)
	}

	return seq
}

// selected enqueues the copies of a message that the subscription's rules select: one
// copy for all rules without an action, and one copy for each rule with an action.
func (s *Subscription) selected(v *message.View, m *message.Message, seq int64, now, expiresAt time.Time) {
	plain := false

	for _, r := range s.rules {
		switch {
		case r.Action == nil && plain, !r.Filter.Match(v):
		case r.Action == nil:
			plain = true

			s.enqueue(m, seq, now, expiresAt)
		default:
			s.enqueue(r.Action.Apply(m), seq, now, expiresAt)
		}
	}
}

// publishDue enqueues a topic's scheduled messages that are due.
func (d *Destination) publishDue(items []*Item) {
	d.mu.Lock()
	defer d.mu.Unlock()

	now := time.Now()
	for _, it := range items {
		d.publish(it.msg, now)
	}
}

// Accepted returns the recorded messages in the order of acceptance.
func (d *Destination) Accepted() []Accepted {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.intake.record.list()
}

// Totals returns how many messages were accepted and how many duplicates
// dropped since the start.
func (d *Destination) Totals() (accepted, duplicates int64) {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.intake.record.accepted, d.intake.record.duplicates
}

// Pending returns how many of a topic's messages are scheduled.
func (d *Destination) Pending() int {
	if d.pending == nil {
		return 0
	}

	return d.pending.Counts().Scheduled
}

// Closed returns why the destination is closed, or nil if it is open.
func (d *Destination) Closed() *wire.Error {
	if d.direct != nil {
		return d.direct.Closed()
	}

	return d.pending.Closed()
}

// Close closes the destination's queues with a reason.
func (d *Destination) Close(reason *wire.Error) {
	if d.direct != nil {
		d.direct.Close(reason)

		return
	}

	d.pending.Close(reason)

	// The lock is not held here: closing waits for forwarding, whose target may be this
	// destination.
	for _, s := range d.Subscriptions() {
		s.Close(reason)
	}
}
