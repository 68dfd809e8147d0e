package drain

import (
	"cmp"
	"slices"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// queue orders the deliveries of a session by aggregate. Only one goroutine uses it.
type queue struct {
	byKey map[string]*aggregate
	// order are the aggregates in the order in which their first deliveries arrived.
	order []*aggregate
	held  load
}

// aggregate is one aggregate of a session.
type aggregate struct {
	key string
	// deliveries are its distinct events, ascending by eventId.
	deliveries []*Delivery
}

// load is the number and the size of messages: of deliveries and of their duplicates.
type load struct{ count, bytes int }

// weigh returns the load of a delivery.
func weigh(d *Delivery) load {
	w := load{1, d.size}
	for _, duplicate := range d.duplicates {
		w.add(weigh(duplicate))
	}
	return w
}

func (w *load) add(more load) { w.count, w.bytes = w.count+more.count, w.bytes+more.bytes }
func (w *load) sub(less load) { w.count, w.bytes = w.count-less.count, w.bytes-less.bytes }
func (w load) none() bool     { return w.count <= 0 || w.bytes <= 0 }

func newQueue() *queue { return &queue{byKey: make(map[string]*aggregate)} }

// add adds a delivery.
func (q *queue) add(d *Delivery) {
	q.held.add(weigh(d))
	a := q.byKey[d.Event.AggregateID]
	if a == nil {
		a = &aggregate{key: d.Event.AggregateID}
		q.byKey[a.key] = a
		q.order = append(q.order, a)
	}
	at, found := slices.BinarySearchFunc(a.deliveries, d.Event.EventID, func(have *Delivery, id int64) int {
		return cmp.Compare(have.Event.EventID, id)
	})
	if found {
		a.deliveries[at].duplicates = append(a.deliveries[at].duplicates, d)
		return
	}
	a.deliveries = slices.Insert(a.deliveries, at, d)
}

// next returns the deliveries of the next call, at most limit: aggregate by aggregate, each in
// the order of its events.
func (q *queue) next(limit int) []*Delivery {
	batch := make([]*Delivery, 0, min(limit, q.held.count))
	for _, a := range q.order {
		batch = append(batch, a.deliveries[:min(len(a.deliveries), limit-len(batch))]...)
		if len(batch) == limit {
			break
		}
	}
	return batch
}

// finish removes the deliveries of a call that are done, and returns them. retried says that
// some of the others must wait for a store.
func (q *queue) finish(batch []*Delivery, verdicts []model.Verdict) (done []*Delivery, retried bool) {
	for i, d := range batch {
		switch verdicts[i].Outcome {
		case model.Done:
			d.done = true
			q.held.sub(weigh(d))
			done = append(done, d)
		case model.Retry:
			retried = true
		case model.Deferred:
		}
	}
	if len(done) == 0 {
		return nil, retried
	}
	q.order = slices.DeleteFunc(q.order, func(a *aggregate) bool {
		a.deliveries = slices.DeleteFunc(a.deliveries, func(d *Delivery) bool { return d.done })
		if len(a.deliveries) == 0 {
			delete(q.byKey, a.key)
		}
		return len(a.deliveries) == 0
	})
	return done, retried
}
