package publish_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// answer is the result of one send.
type answer struct {
	after time.Duration // until it answers
	fits  int           // how many of the messages one broker message holds; 0 means all
	fault *publish.SendError
	// stored is set if a failing send nevertheless reaches the topic, this long after the
	// failure.
	stored      bool
	storedAfter time.Duration
}

func ok(after time.Duration) answer { return answer{after: after} }

func fails(fault publish.Fault) answer {
	return answer{fault: &publish.SendError{Fault: fault, Err: errors.New("ordered by the test")}}
}

// send is one call of Send, as the broker saw it.
type send struct {
	at     time.Time
	conn   int
	keys   int
	events int
	answer answer
}

// broker is a topic whose answers a test chooses. It checks that no key has two
// unacknowledged sends.
type broker struct {
	// answer decides each send; calls are serial.
	answer func(messages []*event.Message) answer
	// connect, if set, returns the result of each connect.
	connect func(n int) error

	mu       sync.Mutex
	late     sync.WaitGroup
	topic    []event.Message // in the order of acceptance
	sends    []send
	sending  map[string]int
	conns    int
	open     int
	problems []string
}

func newBroker(decide func(messages []*event.Message) answer) *broker {
	return &broker{answer: decide, sending: map[string]int{}}
}

func (b *broker) Connect(context.Context) (publish.Sender, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns++
	if b.connect != nil {
		if err := b.connect(b.conns); err != nil {
			return nil, err
		}
	}
	b.open++
	return &brokerConn{broker: b, n: b.conns, closed: make(chan struct{})}, nil
}

func (b *broker) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *broker) count() (topic, sends, conns int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.topic), len(b.sends), b.conns
}

func (b *broker) stored() []event.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]event.Message(nil), b.topic...)
}

func (b *broker) seen() []send {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]send(nil), b.sends...)
}

type brokerConn struct {
	broker *broker
	n      int
	once   sync.Once
	closed chan struct{}
}

var errGone = &publish.SendError{Fault: publish.FaultDisconnected, Err: errors.New("connection is gone")}

func (c *brokerConn) Send(ctx context.Context, messages []*event.Message) (int, error) {
	select {
	case <-c.closed:
		return 0, errGone
	default:
	}
	b := c.broker
	b.mu.Lock()
	copies := make([]event.Message, len(messages))
	keys := map[string]bool{}
	for i, m := range messages {
		copies[i] = *m
		keys[m.SessionKey] = true
	}
	for key := range keys {
		if b.sending[key]++; b.sending[key] > 1 {
			b.problem("%d unacknowledged sends of session key %s", b.sending[key], key)
		}
	}
	a := b.answer(messages)
	b.sends = append(b.sends, send{at: time.Now(), conn: c.n, keys: len(keys), events: len(messages), answer: a})
	b.mu.Unlock()

	err := c.wait(ctx, a.after)

	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range keys {
		b.sending[key]--
	}
	n := len(messages)
	if a.fits > 0 {
		n = min(n, a.fits)
	}
	switch {
	case err == nil && a.fault == nil:
		b.topic = append(b.topic, copies[:n]...)
		return n, nil
	case a.stored && a.storedAfter == 0:
		b.topic = append(b.topic, copies[:n]...)
	case a.stored:
		b.late.Go(func() {
			<-time.After(a.storedAfter)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.topic = append(b.topic, copies[:n]...)
		})
	}
	if err == nil {
		err = a.fault
		if a.fault.Fault == publish.FaultDisconnected {
			c.once.Do(func() { close(c.closed) })
		}
	}
	return 0, err
}

func (c *brokerConn) wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-c.closed:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *brokerConn) Close(context.Context) error {
	c.once.Do(func() { close(c.closed) })
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.broker.open--
	return nil
}

// encoder makes messages that have only the keys.
type encoder struct {
	session func(aggregateID string) string
	fail    func(ev *event.Event) error
}

func (e encoder) SessionKey(aggregateID string) string { return e.session(aggregateID) }

func (e encoder) Encode(ev *event.Event, epoch int64) (event.Message, error) {
	if e.fail != nil {
		if err := e.fail(ev); err != nil {
			return event.Message{}, err
		}
	}
	return event.Message{
		Keys:       ev.Keys,
		MessageID:  fmt.Sprintf("%s/%d", ev.AggregateID, ev.EventID),
		SessionKey: e.session(ev.AggregateID),
		Epoch:      epoch,
	}, nil
}

func (e encoder) Size(*event.Event) (int, error) { return 0, nil }

func (e encoder) EncodeClaimCheck(ev *event.Event, epoch int64) (event.Message, error) {
	m, err := e.Encode(ev, epoch)
	m.ClaimCheck = true
	return m, err
}

func own(aggregateID string) string { return aggregateID }

// harness is a dispatcher over a broker, with the results that it has reported.
type harness struct {
	*publish.Dispatcher
	broker *broker

	// submitted counts the events of submitNext.
	submitted uint64

	mu          sync.Mutex
	acked       map[uint64]int
	quarantined map[uint64]error
	ran         chan error
}

// newHarness makes a harness; change changes the options.
func newHarness(t *testing.T, b *broker, change func(*publish.Options)) *harness {
	t.Helper()
	h := &harness{broker: b, acked: map[uint64]int{}, quarantined: map[uint64]error{}, ran: make(chan error, 1)}
	options := publish.Options{
		Connect: b.Connect,
		Encoder: encoder{session: own},
		Epoch:   7,
		Acked: func(tickets []uint64) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, ticket := range tickets {
				h.acked[ticket]++
			}
		},
		Quarantine: func(_ context.Context, item *publish.Item, cause error) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.quarantined[item.Ticket] = cause
			return nil
		},
	}
	options.Availability = publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: time.Hour})
	if change != nil {
		change(&options)
	}
	h.Dispatcher = publish.New(options)
	return h
}

// startHarness makes a harness that runs until the test ends.
func startHarness(t *testing.T, b *broker, change func(*publish.Options)) *harness {
	t.Helper()
	h := newHarness(t, b, change)
	h.start(t.Context())
	return h
}

func (h *harness) start(ctx context.Context) { go func() { h.ran <- h.Run(ctx) }() }

// submit submits one event whose ticket is its id.
func (h *harness) submit(t *testing.T, aggregate string, id int64) {
	t.Helper()
	if err := h.Submit(t.Context(), item(aggregate, id)); err != nil {
		t.Fatalf("submit %s/%d: %v", aggregate, id, err)
	}
}

// submitNext submits an event. The events of several aggregates get tickets in their order.
func (h *harness) submitNext(ctx context.Context, t *testing.T, aggregate string, id int64) {
	t.Helper()
	it := item(aggregate, id)
	it.Ticket = h.submitted
	h.submitted++
	if err := h.Submit(ctx, it); err != nil {
		t.Fatal(err)
	}
}

func item(aggregate string, id int64) publish.Item {
	return publish.Item{
		Event: event.Event{
			Keys:           event.Keys{AggregateID: aggregate, EventID: id, EventType: "Happened"},
			RawAggregateID: testkit.Value(aggregate),
			Document:       make(bson.Raw, 100),
		},
		Ticket: uint64(id),
	}
}

// finish drains the dispatcher and checks that nothing failed.
func (h *harness) finish(t *testing.T) {
	t.Helper()
	if err := h.Drain(t.Context()); err != nil {
		t.Fatalf("drain: %v", err)
	}
	if err := <-h.ran; err != nil {
		t.Fatalf("run: %v", err)
	}
	h.broker.mu.Lock()
	defer h.broker.mu.Unlock()
	for _, problem := range h.broker.problems {
		t.Error(problem)
	}
	if h.broker.open != 0 {
		t.Errorf("%d connections are left open", h.broker.open)
	}
}

// finishAll drains n events, and checks that all of them are on the
// topic, in order.
func (h *harness) finishAll(t *testing.T, n int) {
	t.Helper()
	h.finish(t)
	if got := h.ackedEvents(); got != n || len(h.quarantined) > 0 {
		t.Errorf("%d of %d events are acknowledged, %d in the quarantine", got, n, len(h.quarantined))
	}
	if err := checkOrder(h.broker.stored(), nothing); err != nil {
		t.Error(err)
	}
}

func (h *harness) ackedEvents() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acked)
}

// checkOrder returns how the topic violates the order. The first occurrences of an
// aggregate's events must have consecutive ids, except for skipped ones.
func checkOrder(topic []event.Message, skipped func(aggregate string, id int64) bool) error {
	last := map[string]int64{}
	for i, m := range topic {
		if m.EventID <= last[m.AggregateID] {
			continue
		}
		for id := last[m.AggregateID] + 1; id < m.EventID; id++ {
			if !skipped(m.AggregateID, id) {
				return fmt.Errorf("message %d is %s before %d", i, m.MessageID, id)
			}
		}
		last[m.AggregateID] = m.EventID
	}
	return nil
}

func nothing(string, int64) bool { return false }
