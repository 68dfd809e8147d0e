package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Newest gives the highest event id of an aggregate; 0 if the store has no event of it. It
// reads one index key for each type that the canonical id can have in the store. The error
// is MongoDB's.
func (r *Reader) Newest(ctx context.Context, aggregateID string) (int64, error) {
	var newest int64
	for _, id := range stored(aggregateID) {
		document, err := r.events.FindOne(ctx, bson.D{{Key: r.fields.AggregateID, Value: id}}, options.FindOne().
			SetSort(bson.D{{Key: r.fields.EventID, Value: -1}}).SetProjection(r.keyProjection())).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the newest event of %s in %s: %w", aggregateID, r.name(), err)
		}
		if ev, err := r.reader.ReadPosition(document); err == nil {
			newest = max(newest, ev.EventID)
		}
	}
	return newest, nil
}

// stored gives the values with a canonical id: string, ObjectId, UUID, integer.
func stored(aggregateID string) []any {
	values := []any{aggregateID}
	if id, err := bson.ObjectIDFromHex(aggregateID); err == nil {
		values = append(values, id)
	}
	if uuid, ok := uuidOf(aggregateID); ok {
		values = append(values, uuid)
	}
	if n, err := strconv.ParseInt(aggregateID, 10, 64); err == nil && strconv.FormatInt(n, 10) == aggregateID {
		// The server compares all numeric types as equal.
		values = append(values, n)
	}
	return values
}

// uuidOf parses the form 8-4-4-4-12.
func uuidOf(text string) (bson.Binary, bool) {
	const length = 36
	parts := strings.Split(text, "-")
	if len(text) != length || len(parts) != 5 {
		return bson.Binary{}, false
	}
	for i, want := range []int{8, 4, 4, 4, 12} {
		if len(parts[i]) != want {
			return bson.Binary{}, false
		}
	}
	data := make([]byte, 0, length/2)
	digits := strings.Join(parts, "")
	for i := 0; i < len(digits); i += 2 {
		b, err := strconv.ParseUint(digits[i:i+2], 16, 8)
		if err != nil {
			return bson.Binary{}, false
		}
		data = append(data, byte(b))
	}
	return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: data}, true
}
