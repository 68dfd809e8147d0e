package broker

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Browsed is a message as a peek or a receive by sequence number returns it.
type Browsed struct {
	Message *message.Message
	Stamp   message.Stamp
}

// Peek returns up to limit messages from a sequence number on, in any state, without
// locking them. A receiver of a session sees only that session; r may be nil.
func (q *Queue) Peek(r *Receiver, from int64, limit int) []Browsed {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()

	var found []*Item

	switch {
	case r != nil && r.session != nil:
		found = q.peekFifo(&r.session.fifo, from, limit, now)
		found = appendFrom(found, r.session.deferred, from)
	case q.sessions != nil:
		for _, s := range q.sessions {
			found = append(found, q.peekFifo(&s.fifo, from, limit, now)...)
		}

		found = appendFrom(found, q.deferred, from)
	default:
		found = q.peekFifo(&q.fifo, from, limit, now)
		found = appendFrom(found, q.deferred, from)
	}

	for _, it := range q.schedule.items {
		if it.seq >= from && (r == nil || r.session == nil || r.session.id == it.msg.SessionID) {
			found = append(found, it)
		}
	}

	slices.SortFunc(found, func(a, b *Item) int { return cmp.Compare(a.seq, b.seq) })

	var out []Browsed

	for _, it := range found {
		if len(out) == limit {
			break
		}

		stamp := it.stamp()
		stamp.LockToken = wire.UUID{} // a peek does not lock
		out = append(out, Browsed{Message: it.msg, Stamp: stamp})
	}

	return out
}

// peekFifo returns the first limit items of a fifo from a sequence number on, without
// expired items. In a partitioned or dead-letter queue, sequence numbers do not rise with
// positions. There peekFifo returns all matching items, and the caller sorts and limits
// them.
func (q *Queue) peekFifo(f *fifo, from int64, limit int, now time.Time) []*Item {
	ordered := !q.sequence.partitioned && q.deadLetter != nil
	slots := f.slots[f.head:]

	if ordered {
		slots = f.from(from)
	}

	var out []*Item

	for _, s := range slots {
		if s.item == nil || s.seq < from || !s.item.locked() && s.item.outlived(now) {
			continue
		}

		if ordered && len(out) == limit {
			break
		}

		out = append(out, s.item)
	}

	return out
}

func appendFrom(found []*Item, deferred map[int64]*Item, from int64) []*Item {
	for seq, it := range deferred {
		if seq >= from {
			found = append(found, it)
		}
	}

	return found
}

// ReceiveDeferred receives deferred messages by their sequence numbers. If one is missing
// or locked, it receives none. In a queue with sessions, r must hold their session.
func (q *Queue) ReceiveDeferred(r *Receiver, seqs []int64, mode Mode) ([]Browsed, *wire.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()
	q.expireLocks(now)

	items := make([]*Item, len(seqs))

	for i, seq := range seqs {
		it := q.deferred[seq]
		there := it != nil && !it.locked() && (it.session == nil || r != nil && r.session == it.session) && !slices.Contains(items[:i], it)

		if !there || q.expired(it, now) {
			return nil, wire.Errorf(CondMessageNotFound, "Failed to lock one or more specified messages. The message does not exist.")
		}

		items[i] = it
	}

	out := make([]Browsed, len(items))

	for i, it := range items {
		if mode == PeekLock {
			it.token = q.newToken()
			it.lockedUntil = now.Add(q.cfg.LockDuration)

			if it.session != nil {
				it.lockedUntil = it.session.lockedUntil
			}

			q.lock(it)
		}

		out[i] = Browsed{Message: it.msg, Stamp: it.stamp()}

		if mode == ReceiveAndDelete {
			q.drop(it)
		}
	}

	q.rearm(now)

	return out, nil
}

// Sessions lists session ids in order: those with active messages or state. If stateAfter
// is given, it lists those whose state was set after that time.
func (q *Queue) Sessions(stateAfter time.Time, skip, limit int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()

	var ids []string

	for id, s := range q.sessions {
		listed := s.state != nil && s.stateAt.After(stateAfter)
		if stateAfter.IsZero() {
			listed = s.state != nil || s.fifo.live > 0
		}

		if listed {
			ids = append(ids, id)
		}
	}

	slices.Sort(ids)
	ids = ids[min(max(skip, 0), len(ids)):]

	return ids[:min(max(limit, 0), len(ids))]
}

// SessionInfo is a message session of a queue at one moment.
type SessionInfo struct {
	ID          string    `json:"id"`
	Messages    int       `json:"messages"`  // active messages
	Available   int       `json:"available"` // active and not locked
	Deferred    int       `json:"deferred"`
	Locked      bool      `json:"locked"`
	LockedUntil time.Time `json:"lockedUntil,omitzero"`
}

// SessionInfos returns the sessions of a queue in the order of their ids.
func (q *Queue) SessionInfos() []SessionInfo {
	q.mu.Lock()
	defer q.mu.Unlock()

	out := make([]SessionInfo, 0, len(q.sessions))

	for id, s := range q.sessions {
		info := SessionInfo{ID: id, Messages: s.fifo.live, Available: s.available, Deferred: len(s.deferred)}

		if s.owner != nil {
			info.Locked, info.LockedUntil = true, s.lockedUntil
		}

		out = append(out, info)
	}

	slices.SortFunc(out, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })

	return out
}

// hold keeps a scheduled message until its enqueue time. It returns the sequence number
// by which the message can be cancelled until then.
func (q *Queue) hold(msg *message.Message) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()

	it := &Item{msg: msg, scheduled: true, dueIndex: -1, enqueuedAt: time.Now()}
	it.seq = q.sequence.next(partitionKey(msg))
	q.counts.Scheduled++
	q.bytes += int64(msg.Size)
	q.schedule.add(it)
	q.rearm(time.Now())

	return it.seq
}

// cancel drops scheduled messages. If one is missing, it drops none.
func (q *Queue) cancel(seqs []int64) *wire.Error {
	q.mu.Lock()
	defer q.mu.Unlock()

	bySeq := make(map[int64]*Item, len(q.schedule.items))
	for _, it := range q.schedule.items {
		bySeq[it.seq] = it
	}

	for _, seq := range seqs {
		if bySeq[seq] == nil {
			return wire.Errorf(CondMessageNotFound, "The message with sequence number %d was not found.", seq)
		}
	}

	for _, seq := range seqs {
		if it := bySeq[seq]; it.dueIndex >= 0 {
			q.schedule.remove(it)
			q.counts.Scheduled--
			q.bytes -= int64(it.msg.Size)
		}
	}

	return nil
}
