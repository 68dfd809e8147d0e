package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Update changes a destination's intake configuration, except partitioning. For a queue,
// it also changes the delivery configuration.
func (d *Destination) Update(in IntakeConfig, q QueueConfig) {
	in.setIntakeDefaults()
	q.setQueueDefaults()

	d.mu.Lock()
	defer d.mu.Unlock()

	in.Partitioned = d.intake.cfg.Partitioned
	in.Record = d.intake.cfg.Record
	d.intake.cfg = in

	if d.intake.history != nil && in.DuplicateDetectionWindow > 0 {
		d.intake.history.window = in.DuplicateDetectionWindow
	}

	if d.direct != nil {
		q.DefaultTTL = in.DefaultTTL
		d.direct.update(q)
	}
}

// Subscribe adds a subscription to a topic.
func (d *Destination) Subscribe(cfg SubscriptionConfig) error {
	if d.Subscription(cfg.Name) != nil {
		return fmt.Errorf("subscription %q of topic %q exists already", cfg.Name, d.path)
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.subscribe(cfg)

	return nil
}

// Unsubscribe removes a subscription from a topic. It reports whether the subscription
// existed.
func (d *Destination) Unsubscribe(name string) bool {
	s := d.Subscription(name)
	if s == nil {
		return false
	}

	d.mu.Lock()
	d.subs = slices.DeleteFunc(d.subs, func(o *Subscription) bool { return strings.EqualFold(o.name, name) })
	d.mu.Unlock()

	s.Close(errDeleted(s.path))

	return true
}

// UpdateSubscription changes a subscription's delivery configuration.
func (d *Destination) UpdateSubscription(name string, cfg QueueConfig) {
	cfg.setQueueDefaults()

	if s := d.Subscription(name); s != nil {
		cfg.DefaultTTL = shortest(cfg.DefaultTTL, d.Config().DefaultTTL)
		s.update(cfg)
	}
}

// SetRules replaces the rules of a subscription: nil selects all messages.
func (d *Destination) SetRules(name string, rules []Rule) {
	s := d.Subscription(name)
	if s == nil {
		return
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	s.rules = rules
}

// UsedAt returns when the last message was sent, or the zero time.
func (d *Destination) UsedAt() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.used
}

// Size returns the bytes of the messages in a queue or topic. A topic's size includes the
// messages of its subscriptions.
func (d *Destination) Size() int64 {
	if d.direct != nil {
		return d.direct.Size()
	}

	n := d.pending.Size()
	for _, s := range d.Subscriptions() {
		n += s.Size()
	}

	return n
}
