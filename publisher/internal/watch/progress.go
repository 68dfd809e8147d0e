package watch

import (
	"bytes"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// progress decides whether the stream is alive. It is safe for concurrent use.
type progress struct {
	silence, catchUp time.Duration

	mu    sync.Mutex
	token bson.Raw
	// moved is when the position last moved, reopened when the stream was last
	// opened, whatever came of it.
	moved, reopened time.Time
	// replied says that a stream has answered. Before that the position may be old,
	// and the server has to scan a long oplog for it; after that it is as young as the
	// last interruption.
	replied bool
	// held says that the reader waits for the handler.
	held bool
}

func newProgress(silence, catchUp time.Duration, now time.Time) *progress {
	return &progress{silence: silence, catchUp: catchUp, moved: now, reopened: now}
}

// opening notes that the stream is being opened.
func (p *progress) opening(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reopened = now
}

// reply notes an answer of the stream and tells whether the position has moved.
// That a token differs is all that is asked of it: tokens are opaque.
func (p *progress) reply(token bson.Raw, changes int, now time.Time) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replied = true
	moved = changes > 0 || !bytes.Equal(token, p.token)
	if moved {
		p.token, p.moved = token, now
	}
	return moved
}

// hold notes that the reader waits for the handler: the server is not asked, so
// that its silence means nothing.
func (p *progress) hold(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.moved = true, now
}

// release notes that the reader waits for the handler no more.
func (p *progress) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
}

// silent tells whether the stream answers without moving for so long that it is
// to be reopened.
func (p *progress) silent(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.moved
	if p.reopened.After(since) {
		since = p.reopened
	}
	return now.Sub(since) >= p.silence
}

// fresh tells whether the position has moved lately, so that an empty reply
// proves that there is nothing to read.
func (p *progress) fresh(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.moved) < p.silence
}

// alive tells whether the liveness probe may hear a beat.
func (p *progress) alive(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	allowed := 2 * p.silence
	if !p.replied {
		allowed = max(allowed, p.catchUp)
	}
	return p.held || now.Sub(p.moved) < allowed
}

// patience is how long the next request may take.
func (p *progress) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.replied {
		return max(p.silence, p.catchUp)
	}
	return p.silence
}
