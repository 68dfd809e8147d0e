package lease

import (
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Fields are the paths of a lease's fields in its document.
type Fields struct {
	// Until is when the lease ends.
	Until string
	// Holder is the last holder: its name, or an id of its own for each taking. It is empty if
	// the document does not store one.
	Holder string
	// Epoch counts the takings; empty if nothing is fenced by a number.
	Epoch string
}

// Free matches a document whose lease has ended or was never taken.
func (f Fields) Free() bson.E { return bson.E{Key: "$expr", Value: f.ended()} }

// Alive matches a document whose lease has not ended.
func (f Fields) Alive() bson.E { return bson.E{Key: "$expr", Value: f.lasts()} }

func (f Fields) lasts() bson.D {
	return bson.D{{Key: "$gt", Value: bson.A{"$" + f.Until, mongox.Now}}}
}

func (f Fields) ended() bson.D { return bson.D{{Key: "$not", Value: bson.A{f.lasts()}}} }

// Held matches a document whose lease was last taken at the epoch, even if it has ended.
func (f Fields) Held(epoch int64) bson.E { return bson.E{Key: f.Epoch, Value: epoch} }

// Take returns what an update with expressions sets to give the lease to a holder. The
// filter of the update must have [Fields.Free].
func (f Fields) Take(holder any, lasts time.Duration) bson.D {
	var set bson.D
	if f.Holder != "" {
		set = append(set, bson.E{Key: f.Holder, Value: mongox.Literal(holder)})
	}
	if f.Epoch != "" {
		set = append(set, f.Fence())
	}
	return append(set, f.Renew(lasts))
}

// Fence raises the epoch, so that requests of the last holder match nothing.
func (f Fields) Fence() bson.E {
	last := bson.D{{Key: "$ifNull", Value: bson.A{"$" + f.Epoch, int64(0)}}}
	return bson.E{Key: f.Epoch, Value: bson.D{{Key: "$add", Value: bson.A{last, int64(1)}}}}
}

// Renew lets the lease last for a time from now.
func (f Fields) Renew(lasts time.Duration) bson.E {
	return bson.E{Key: f.Until, Value: mongox.FromNow(lasts)}
}

// Shorten lets the lease last for a time from now, but no longer than it would have lasted.
func (f Fields) Shorten(lasts time.Duration) bson.E {
	return bson.E{Key: f.Until, Value: bson.D{{Key: "$min", Value: bson.A{"$" + f.Until, mongox.FromNow(lasts)}}}}
}

// Release ends the lease. Another process can take it after a wait, which is mostly 0.
func (f Fields) Release(wait time.Duration) bson.E { return f.Renew(wait) }

// Trusted is the part of a lease that its holder may use: see the package documentation.
func Trusted(lasts time.Duration) time.Duration { return lasts - lasts/6 }

// Trust is the time until which a process may rely on its lease, by its own clock. The zero
// value trusts nothing. It is safe for concurrent use.
type Trust struct {
	mu    sync.Mutex
	until time.Time
}

// Extend records that a request that began at the time start was answered, and has taken or
// renewed the lease. trusted is the part of the lease that may be used. Requests that began
// earlier change nothing.
func (t *Trust) Extend(start time.Time, trusted time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := start.Add(trusted); until.After(t.until) {
		t.until = until
	}
}

// End ends the trust.
func (t *Trust) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
}

// Left is the time that is left; it is not positive if the lease may have ended.
func (t *Trust) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.until)
}

// Holds reports whether no other process can have the lease yet.
func (t *Trust) Holds() bool { return t.Left() > 0 }
