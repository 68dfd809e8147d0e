package watch

import (
	"bytes"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	// closeBehind is how far behind the server's newest operation a stream may be to count
	// as caught up. A shard without writes delays a sharded stream by the 10 s between its
	// no-op entries (periodicNoopIntervalSecs).
	closeBehind = 15 * time.Second
	// maxDoublings bounds how often the time for a request is doubled.
	maxDoublings = 8
)

// progress decides whether the stream is alive, whether it has caught up, and how long
// a request may take. It is safe for concurrent use.
type progress struct {
	silence, catchUp time.Duration

	mu    sync.Mutex
	token bson.Raw
	// moved is when the position last moved, or the reader last waited for the handler.
	moved time.Time
	// answered is when the server last showed, other than by moving the position, that it
	// works on the pending request.
	answered time.Time
	// stalled is when the first reply arrived that did not move the position, since the
	// position moved or the stream was opened; zero if there was none.
	stalled time.Time
	// current is when a reply last showed that the stream had caught up; zero before.
	current time.Time
	// far says that the last reply was known to be far behind.
	far bool
	// exceeded counts consecutive requests whose time was too short.
	exceeded int
	// held says that the reader may wait for the handler.
	held bool
}

func newProgress(silence, catchUp time.Duration, now time.Time) *progress {
	return &progress{silence: silence, catchUp: max(silence, catchUp), moved: now}
}

// opening notes that the stream is being opened.
func (p *progress) opening() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = time.Time{}
}

// reply notes an answer of the stream and reports whether the position has moved. fresh says
// that it has moved lately, so that an empty reply proves that there is nothing to read.
func (p *progress) reply(chunk Chunk, now time.Time) (moved, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	behind, known := chunk.behind()
	p.far = known && behind > closeBehind
	if moved = len(chunk.Changes) > 0 || !bytes.Equal(chunk.Token, p.token); moved {
		p.token, p.moved, p.stalled, p.exceeded = chunk.Token, now, time.Time{}, 0
	} else {
		if p.stalled.IsZero() {
			p.stalled = now
		}
		if p.far {
			// Through mongos the position stays the same while the slowest shard scans its
			// oplog.
			p.answered = now
		}
	}
	fresh = now.Sub(p.moved) < p.silence
	// Without times, only an empty reply shows that the stream has caught up.
	near := known && !p.far || !known && len(chunk.Changes) == 0
	if near && !chunk.More && fresh {
		p.current = now
	}
	return moved, fresh
}

// ping notes that the server has answered a ping while a request waits.
func (p *progress) ping(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled.IsZero() || p.far {
		p.answered = now
	}
}

// exceed notes that a request was given up although the server answers pings. The next
// request may take twice as long, so that an oplog of any length is scanned in the end.
func (p *progress) exceed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exceeded++
}

// hold notes that the reader may wait for the handler. No request is pending meanwhile, so
// the server's silence is not a fault.
func (p *progress) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// release notes that the reader no longer waits for the handler.
func (p *progress) release(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.moved = false, now
}

// silent reports whether the stream has answered without moving for so long that it
// must be reopened.
func (p *progress) silent(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled.IsZero() {
		return false
	}
	allowed := p.silence
	if p.far {
		allowed = p.limit()
	}
	return now.Sub(p.stalled) >= allowed
}

// caughtUp reports whether the stream is close to the end of the oplog, or was when it
// was last read, less than a silence ago.
func (p *progress) caughtUp(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.caughtUpAt(now)
}

func (p *progress) caughtUpAt(now time.Time) bool {
	return !p.current.IsZero() && now.Sub(p.current) < p.silence
}

// alive reports whether the liveness probe may get a heartbeat.
func (p *progress) alive(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.moved
	if p.answered.After(last) {
		last = p.answered
	}
	return p.held || now.Sub(last) < 2*p.silence
}

// allowance returns how long the next request may take, and whether that holds only as
// long as the server answers pings.
func (p *progress) allowance(now time.Time) (limit time.Duration, pinged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.caughtUpAt(now) {
		return p.silence, false
	}
	return p.limit(), true
}

func (p *progress) limit() time.Duration { return p.catchUp << min(p.exceeded, maxDoublings) }
