package preflight

import (
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Index checks the index by which both services read the event store in a database. It reports
// whether the indexes can be read.
func (r *Report) Index(ctx context.Context, history *eventstore.Reader, database string) bool {
	const what = "event store, index"
	exists, err := history.CheckIndex(ctx)
	unique := false
	if err == nil && exists {
		unique, err = history.CheckUnique(ctx)
	}
	err = mongox.Explain(ctx, err)
	if collated := history.Collated(); collated != "" {
		r.Warn("event store, collation", collated, "copy the events into a collection without a default collation")
	}
	if ttl, ttlErr := history.CheckTTL(ctx); ttlErr == nil && ttl != "" {
		r.Fail("event store, TTL", "index "+ttl+" deletes events after a time; read models are folded from all events of an aggregate", "drop index "+ttl)
	}
	if err == nil && exists {
		if first := history.CheckFirstID(ctx); errors.Is(first, eventstore.ErrFirstID) {
			r.Fail("event store, first ids", first.Error(), "set PENSTOCK_FIRST_EVENT_ID as the text says")
		}
	}
	switch {
	case errors.Is(err, eventstore.ErrIndex):
		r.Fail(what, err.Error(), "make the index usable as the text says; without any index on these keys: "+history.CreateIndex())
	case err != nil:
		r.Refused(what, err, "grant the user read on database "+database)
		return false
	case !exists:
		r.Warn(what, "the collection does not exist yet", "create it before the first event: "+history.CreateIndex())
	case !unique:
		cost, remedy := history.NotUnique()
		r.Warn(what, cost, remedy)
	default:
		r.OK(what, "unique by aggregate and event id")
	}
	return true
}
