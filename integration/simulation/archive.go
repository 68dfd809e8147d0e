package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// snapshot is the type of events with which a history may begin. The rules of all projections set
// everything that they have, so the fold from a snapshot is that of the whole history.
const snapshot = "Snapshotted"

// archiver is the part of a writer that archives events behind snapshots.
type archiver struct {
	writer *writer
	random *rand.Rand
	// deleting counts the deletions that have not ended.
	deleting sync.WaitGroup
}

// archive writes a snapshot of an open aggregate, and deletes the events before it later, in two
// parts, as a server does that deletes one event after the other. It archives no event that parks
// its aggregate, because nothing retries that aggregate.
func (a *archiver) archive(ctx context.Context) {
	w := a.writer
	id := w.aggregate()
	if !w.open[id] || w.poisoned[id] || w.world.isErased(id) {
		return
	}
	document, c := w.event(id, snapshot)
	w.store(ctx, []any{document}, []commit{c})
	pauses := []time.Duration{time.Duration(a.random.Int64N(int64(20 * time.Second))), time.Duration(a.random.Int64N(int64(5 * time.Second)))}
	if a.random.IntN(2) == 0 {
		pauses[0] = 0 // before the projectors have applied them
	}
	a.deleting.Go(func() {
		wait(ctx, pauses[0])
		if ctx.Err() != nil {
			return
		}
		w.world.mu.Lock()
		w.world.archived[id] = max(w.world.archived[id], c.event)
		w.world.mu.Unlock()
		w.world.history.add(w.world.named("archiver"), "deletes the events of %s before %d", id, c.event)
		w.world.deleteBefore(ctx, id, c.event/2)
		wait(ctx, pauses[1])
		w.world.deleteBefore(ctx, id, c.event)
	})
}

// deleteBefore deletes the events of an aggregate before one, until MongoDB acknowledges it.
func (w *World) deleteBefore(ctx context.Context, id string, event int64) {
	ctx = context.WithoutCancel(ctx)
	until(ctx, func() error {
		w.writing.RLock()
		defer w.writing.RUnlock()
		_, err := w.events().DeleteMany(ctx, bson.D{{Key: "aggregateId", Value: id}, {Key: "eventId", Value: bson.D{{Key: "$lt", Value: event}}}})
		if err != nil {
			return fmt.Errorf("delete the events of %s before %d: %w", id, event, err)
		}
		return nil
	})
}

// isArchived reports whether an event was deleted behind a snapshot, or will be.
func (w *World) isArchived(c *commit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.event < w.archived[c.aggregate]
}

// beginsAnew reports whether events of an aggregate after this one were archived. A read model that
// lacks them takes the snapshot from the event store, before the topic delivers it to a generation
// that is being built.
func (w *World) beginsAnew(id string, event int64) bool {
	return w.isArchived(&commit{aggregate: id, event: event})
}

// withSnapshots declares the snapshots in a file of projections.
func withSnapshots(file string) string {
	return strings.Replace(file, "projections:", "snapshots: ["+snapshot+"]\nprojections:", 1)
}
