package preflight

import (
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Index checks the index by which both services read the event store in a database. It reports
// whether the events can be checked: they cannot without the right to read, or with a wrong first id.
func (r *Report) Index(ctx context.Context, history *eventstore.Reader, database string) bool {
	const what = "event store, index"
	found, err := history.CheckIndex(ctx)
	err = mongox.Explain(ctx, err)
	if found.Collated {
		r.Warn("event store, collation", "the collection has a default collation, under which the ids of two aggregates can be equal, such as a and A: builds, sweeps and verifications take the events of such aggregates for those of one", "copy the events into a collection without a default collation")
	}
	if found.TTL != "" {
		r.Fail("event store, TTL", "index "+found.TTL+" deletes events after a time; read models are folded from all events of an aggregate", "drop index "+found.TTL)
	}
	if err == nil && found.Exists {
		if first := history.CheckFirstID(ctx); errors.Is(first, eventstore.ErrFirstID) {
			r.Fail("event store, first ids", first.Error(), "set PENSTOCK_FIRST_EVENT_ID as the text says, before anything else")
			return false
		}
	}
	switch {
	case errors.Is(err, eventstore.ErrIndex):
		r.Fail(what, err.Error(), "make the index usable as the text says; without any index on these keys: "+history.CreateIndex())
	case err != nil:
		r.Refused(what, err, "grant the user read on database "+database)
		return false
	case !found.Exists:
		r.Warn(what, "the collection does not exist yet", "create it before the first event: "+history.CreateIndex())
	case !found.Unique:
		cost, remedy := history.NotUnique()
		r.Warn(what, cost, remedy)
	default:
		r.OK(what, "unique by aggregate and event id")
	}
	return true
}
