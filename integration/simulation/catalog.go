package simulation

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// watchCatalog compares the entries of the catalog, and the registrations of the pods, with those of
// the last read, until ctx ends. It reads often, because a change that overwrites another one follows
// it within moments.
func (o *observer) watchCatalog(ctx context.Context) {
	var setBack int64
	var entries, pods []bson.Raw
	last := make(map[string]bson.Raw)
	poll.Every(ctx, 10*time.Millisecond, func() {
		if o.world.halted.Load() {
			return
		}
		if n := o.world.setBack.Load(); n != setBack {
			setBack = n // The state database was restored or lost.
			entries, pods = nil, nil
			clear(last)
		}
		for _, entry := range o.changed("projections", &entries) {
			name := text(entry, "_id")
			if o.world.owns(name) && overwritten(last[name], entry) {
				o.overwritten = append(o.overwritten, fmt.Sprintf("at %v: the entry %v has become %v", time.Since(o.world.history.began), last[name], entry))
			}
			last[name] = entry
		}
		for _, pod := range o.changed("projectors", &pods) {
			name := text(pod, "_id")
			if before, after := number(last[name], "beat"), number(pod, "beat"); after < before {
				o.overwritten = append(o.overwritten, fmt.Sprintf("at %v: the renewal %d of %s has replaced the renewal %d", time.Since(o.world.history.began), after, name, before))
			}
			last[name] = pod
		}
	})
}

// changed returns the documents of a collection of the state database, or none if they are those
// of the last read, as nearly always.
func (o *observer) changed(collection string, last *[]bson.Raw) []bson.Raw {
	now := o.world.state(collection)
	same := slices.EqualFunc(now, *last, func(a, b bson.Raw) bool { return bytes.Equal(a, b) })
	if *last = now; same {
		return nil
	}
	return now
}

// overwritten reports whether an entry has changed although its revision has not risen: a write
// has then overwritten a change that its process has not read.
func overwritten(before, after bson.Raw) bool {
	return before != nil && !bytes.Equal(before, after) && number(after, "revision") <= number(before, "revision")
}
