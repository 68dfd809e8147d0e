package broker

import (
	"container/list"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Queue keeps messages and delivers them. It is a queue, a subscription, or the
// dead-letter queue of either. All methods are safe for concurrent use.
//
// Locks are taken in the order topic, queue, dead-letter queue; consumers are
// called with the queue's lock held and must not call back.
type Queue struct {
	path       string
	deadLetter *Queue // nil in a dead-letter queue
	transfer   *Queue // transfer dead-letter queue: messages that could not be forwarded
	forward    *forwarder

	mu       sync.Mutex
	cfg      QueueConfig
	closed   *wire.Error // the reason, nil: open
	sequence sequence

	fifo     fifo                // without sessions
	sessions map[string]*session // with sessions
	ready    list.List           // of *session: unlocked, with something available
	held     sessionHeap         // locked
	waiters  list.List           // of *Waiter: accepts that wait for a ready session

	receivers []*Receiver // without sessions
	turn      int         // index of the receiver that is next

	tokens   map[wire.UUID]*Item
	locks    lockList // without sessions
	deferred map[int64]*Item
	schedule dueHeap
	expiry   dueHeap
	alarm    alarm
	counts   Counts
	bytes    int64 // size of all messages
	random   *rand.ChaCha8
	scratch  Delivery
	onDue    func([]*Item) // takes over scheduled items that are due, nil: the queue enqueues them
}

// Counts are the numbers of a queue's messages by state.
type Counts struct {
	Active       int `json:"active"`    // available or locked
	Locked       int `json:"locked"`    // active and locked
	Deferred     int `json:"deferred"`  // locked or not locked
	Scheduled    int `json:"scheduled"` // not yet due
	DeadLettered int `json:"deadLettered"`

	// TransferDeadLettered counts messages that could not be forwarded.
	TransferDeadLettered int `json:"transferDeadLettered"`
}

// sequence assigns sequence numbers to the messages of an entity.
type sequence struct {
	partitioned bool
	last        [partitions]int64
	spread      int
}

// next returns the next number. In a partitioned entity the upper 16 bits are the
// partition. The key selects the partition; messages without a key rotate through the
// partitions.
func (s *sequence) next(key string, keyed bool) int64 {
	p := 0

	if s.partitioned {
		if keyed {
			p = partitionOf(key)
		} else {
			s.spread++
			p = s.spread % partitions
		}
	}

	s.last[p]++

	return int64(p)<<48 | s.last[p]
}

func partitionOf(key string) int {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}

	return int(h % partitions)
}

func newQueue(path string, cfg QueueConfig, partitioned bool, send func(string, *message.Message) *wire.Error) *Queue {
	q := bareQueue(path, cfg)
	q.sequence.partitioned = partitioned

	if cfg.RequiresSession {
		q.sessions = make(map[string]*session)
	}

	// A dead-letter queue has no sessions and never dead-letters its own messages.
	sub := QueueConfig{LockDuration: cfg.LockDuration, MaxDeliveryCount: math.MaxUint32}
	q.deadLetter = bareQueue(path+"/$DeadLetterQueue", sub)
	q.transfer = bareQueue(path+"/$Transfer/$DeadLetterQueue", sub)
	q.forward = q.forwarder(cfg.ForwardTo, send)
	q.deadLetter.forward = q.forwarder(cfg.ForwardDeadLettersTo, send)

	return q
}

// forwarder returns a forwarder to a target, or nil if there is no target.
func (q *Queue) forwarder(target string, send func(string, *message.Message) *wire.Error) *forwarder {
	if target == "" {
		return nil
	}

	return newForwarder(target, send, func(m *message.Message, reason *wire.Error) {
		m = m.WithApplicationProperties(deadLetterProperties(string(reason.Condition), reason.Description))
		q.transfer.adopt(&Item{msg: m, seq: 0, enqueuedAt: time.Now()})
	})
}

func bareQueue(path string, cfg QueueConfig) *Queue {
	var seed [32]byte
	for i := 0; i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], rand.Uint64())
	}

	return &Queue{
		path:     path,
		cfg:      cfg,
		tokens:   make(map[wire.UUID]*Item),
		schedule: dueHeap{at: func(it *Item) time.Time { return it.msg.ScheduledAt }},
		expiry:   dueHeap{at: func(it *Item) time.Time { return it.expiresAt }},
		random:   rand.NewChaCha8(seed),
	}
}

// Path returns the queue's path, such as "events/Subscriptions/projector".
func (q *Queue) Path() string { return q.path }

// DeadLetter returns the queue's dead-letter queue, nil if it is one.
func (q *Queue) DeadLetter() *Queue { return q.deadLetter }

// RequiresSession reports whether messages are available by session only.
func (q *Queue) RequiresSession() bool { return q.sessions != nil }

// Counts returns the numbers of messages by state.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	c := q.counts
	q.mu.Unlock()

	if q.deadLetter != nil {
		d := q.deadLetter.Counts()
		c.DeadLettered = d.Active + d.Deferred
		c.TransferDeadLettered = q.transfer.Counts().Active
	}

	return c
}

// Size returns the size of all messages in bytes, dead letters included.
func (q *Queue) Size() int64 {
	q.mu.Lock()
	n := q.bytes
	q.mu.Unlock()

	if q.deadLetter != nil {
		n += q.deadLetter.Size() + q.transfer.Size()
	}

	return n
}

// Config returns the delivery configuration.
func (q *Queue) Config() QueueConfig {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.cfg
}

// update changes the delivery configuration, except sessions and forwarding. Existing
// locks keep their expiry.
func (q *Queue) update(cfg QueueConfig) {
	q.mu.Lock()
	defer q.mu.Unlock()

	cfg.RequiresSession = q.cfg.RequiresSession
	cfg.ForwardTo, cfg.ForwardDeadLettersTo = q.cfg.ForwardTo, q.cfg.ForwardDeadLettersTo
	q.cfg = cfg
}

// enqueue appends a message. The message expires at expiresAt. If expiresAt is zero, it
// expires after its time to live. Only the entity's intake calls enqueue, one message at
// a time, so the queue keeps the order of acceptance.
func (q *Queue) enqueue(msg *message.Message, enqueuedSeq int64, now, expiresAt time.Time) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.closed != nil {
		return 0
	}

	q.expireLocks(now)

	it := &Item{msg: msg, enqueuedSeq: enqueuedSeq, expiresAt: expiresAt, dueIndex: -1}
	q.accept(it, now)

	return it.seq
}

// accept assigns an item a sequence number and places it at the end.
func (q *Queue) accept(it *Item, now time.Time) {
	it.seq = q.sequence.next(partitionKey(it.msg))
	it.enqueuedAt = now
	it.scheduled = false

	if q.forward != nil {
		q.forward.push(it.msg.Forwarded(""))

		return
	}

	if q.sessions != nil && !it.msg.HasSession {
		// This can only be a subscription: a queue refuses the send.
		it.msg = it.msg.WithApplicationProperties(deadLetterProperties("Session ID is null.",
			"Session enabled entity doesn't allow a message whose session identifier is null."))
		q.deadLetter.adopt(it)

		return
	}

	if ttl := shortest(it.msg.TTL, q.cfg.DefaultTTL); ttl > 0 && it.expiresAt.IsZero() {
		it.expiresAt = now.Add(ttl)
	}

	if !it.expiresAt.IsZero() {
		q.expiry.add(it)
	}

	q.counts.Active++
	q.bytes += int64(it.msg.Size)
	q.place(it)

	if it.session != nil {
		q.offer(it.session, now)
	} else {
		q.pump(now)
	}

	q.rearm(now)
}

// place appends an item to its session's fifo, or to the queue's.
func (q *Queue) place(it *Item) {
	if q.sessions == nil {
		q.fifo.push(it)

		return
	}

	s := q.session(it.msg.SessionID)
	it.session = s
	s.fifo.push(it)
	s.available++
}

// adopt takes over an item from the queue to which this dead-letter queue belongs.
func (q *Queue) adopt(it *Item) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.closed != nil {
		return
	}

	if q.forward != nil {
		source, _ := cutSuffixFold(q.path, "/$DeadLetterQueue")
		q.forward.push(it.msg.Forwarded(source))

		return
	}

	moved := &Item{
		msg:           it.msg,
		seq:           it.seq,
		enqueuedSeq:   it.enqueuedSeq,
		enqueuedAt:    it.enqueuedAt,
		deliveryCount: it.deliveryCount,
		dueIndex:      -1,
	}

	if moved.seq == 0 {
		moved.seq = q.sequence.next("", false)
	}

	q.counts.Active++
	q.bytes += int64(moved.msg.Size)
	q.fifo.push(moved)
	q.pump(time.Now())
	q.rearm(time.Now())
}

// drop removes an item permanently. The item must not be locked.
func (q *Queue) drop(it *Item) {
	it.gone = true
	q.bytes -= int64(it.msg.Size)
	q.expiry.remove(it)

	switch {
	case it.deferred:
		delete(q.deferred, it.seq)
		q.counts.Deferred--

		if it.session != nil {
			delete(it.session.deferred, it.seq)
		}
	default:
		q.counts.Active--

		if it.session != nil {
			it.session.fifo.remove(it)
		} else {
			q.fifo.remove(it)
		}
	}

	if it.session != nil {
		q.forget(it.session)
	}
}

// bury moves an item to the dead-letter queue. The item must not be locked.
func (q *Queue) bury(it *Item, properties wire.Map) {
	q.drop(it)
	it.msg = it.msg.WithApplicationProperties(properties)
	q.deadLetter.adopt(it)
}

// Closed returns why the queue is closed, or nil if it is open.
func (q *Queue) Closed() *wire.Error {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.closed
}

// Close detaches all receivers with a reason. From then on the queue neither accepts nor
// delivers messages.
func (q *Queue) Close(reason *wire.Error) {
	q.mu.Lock()
	q.closed = reason
	q.alarm.stop()
	q.detachAll(reason)
	q.mu.Unlock()

	if q.forward != nil {
		q.forward.wait()
	}

	if q.deadLetter != nil {
		q.deadLetter.Close(reason)
		q.transfer.Close(reason)
	}
}

func (q *Queue) newToken() wire.UUID {
	var t wire.UUID

	binary.LittleEndian.PutUint64(t[:8], q.random.Uint64())
	binary.LittleEndian.PutUint64(t[8:], q.random.Uint64())

	t[6] = t[6]&0x0f | 0x40
	t[8] = t[8]&0x3f | 0x80

	return t
}

func partitionKey(m *message.Message) (string, bool) {
	switch {
	case m.HasSession:
		return m.SessionID, true
	case m.HasPartitionKey:
		return m.PartitionKey, true
	default:
		return "", false
	}
}

func shortest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}

	return a
}

func deadLetterProperties(reason, description string) wire.Map {
	return wire.Map{
		{Key: "DeadLetterReason", Value: reason},
		{Key: "DeadLetterErrorDescription", Value: description},
	}
}
