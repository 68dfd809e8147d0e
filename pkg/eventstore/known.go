package eventstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Known finds out which of at most some thousands of aggregates have events. The keys of
// the result are the canonical ids of aggregates with events, the values are the ids with
// their types in the store. Known reads the index keys of one event for each aggregate.
//
// A canonical id does not tell its type, so Known looks for each id as a string and as
// every other value with that canonical form.
func (r *Reader) Known(ctx context.Context, ids []string) (map[string]bson.RawValue, error) {
	if _, err := r.LearnIDs(ctx); err != nil {
		return nil, err
	}
	var candidates bson.A
	for _, id := range ids {
		candidates = appendForms(candidates, id, r.fields.UUIDs)
	}
	return r.aggregates(ctx, bson.D{{Key: r.fields.AggregateID, Value: bson.D{{Key: "$in", Value: candidates}}}})
}

// OfTypes finds out which of some hundreds of aggregates have an event with one of these types of
// aggregates. It sees everything up to since. The server reads the events of the aggregates, and
// sends only ids. The result is that of [Reader.Known]. It is nil if the collection has a collation,
// because the server would then give only one of the ids that are equal by it.
func (r *Reader) OfTypes(ctx context.Context, ids []bson.RawValue, types []string, since bson.Timestamp) (map[string]bson.RawValue, error) {
	if r.collated.Load() {
		return nil, nil
	}
	session, err := r.sessionSince(since)
	if err != nil {
		return nil, err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	return r.aggregates(mongo.NewSessionContext(ctx, session), bson.D{
		{Key: r.fields.AggregateID, Value: bson.D{{Key: "$in", Value: ids}}},
		{Key: r.fields.AggregateType, Value: bson.D{{Key: "$in", Value: types}}},
	})
}

// aggregates gives the ids of the aggregates of events.
func (r *Reader) aggregates(ctx context.Context, of bson.D) (map[string]bson.RawValue, error) {
	var values []bson.RawValue
	if err := r.events.Distinct(ctx, r.fields.AggregateID, of).Decode(&values); err != nil {
		return nil, fmt.Errorf("look for the events of aggregates in %s: %w", r.name(), err)
	}
	known := make(map[string]bson.RawValue, len(values))
	for _, v := range values {
		key, err := bson.Marshal(bson.D{{Key: r.fields.AggregateID, Value: v}, {Key: r.fields.EventID, Value: 1}})
		if err != nil {
			return nil, fmt.Errorf("read an aggregate's id: %w", err)
		}
		if ev, err := r.reader.ReadPosition(key); err == nil {
			known[ev.AggregateID] = v
		}
	}
	return known, nil
}

// appendForms appends every value whose canonical form is id.
func appendForms(forms bson.A, id string, uuids event.UUIDRepresentation) bson.A {
	forms = append(forms, id)
	if oid, err := bson.ObjectIDFromHex(id); err == nil && oid.Hex() == id {
		forms = append(forms, oid)
	}
	// The server compares integers of both widths as equal, so one form is enough.
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && strconv.FormatInt(n, 10) == id {
		forms = append(forms, n)
	}
	const uuidText = 36
	if digits := strings.ReplaceAll(id, "-", ""); len(id) == uuidText && len(digits) == 32 {
		if uuid, err := hex.DecodeString(digits); err == nil {
			forms = append(forms, bson.Binary{Subtype: bson.TypeBinaryUUID, Data: uuid})
			if uuids.Ordered() {
				older := uuids.Reorder([16]byte(uuid))
				forms = append(forms, bson.Binary{Subtype: bson.TypeBinaryUUIDOld, Data: older[:]})
			}
		}
	}
	return forms
}
