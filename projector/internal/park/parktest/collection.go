// Package parktest holds markers of parked aggregates in memory, for tests.
package parktest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Key is the _id of a marker.
type Key struct {
	Projection  string `bson:"projection"`
	AggregateID string `bson:"aggregateId"`
	Generation  int64  `bson:"generation,omitempty"`
}

// KeyOf is the key of a unit's marker.
func KeyOf(u model.Unit) Key {
	return Key{Projection: u.Projection, AggregateID: u.AggregateID, Generation: u.Later()}
}

// group is the key of a count of markers.
type group struct {
	Projection string `bson:"projection"`
	Generation int64  `bson:"generation,omitempty"`
	Reason     string `bson:"reason"`
	Discarded  bool   `bson:"discarded"`
}

// Collection carries out the commands of a store of markers in memory, one at a time. It
// implements only the part of MongoDB's language that the store uses, and panics on
// anything else. The stand-in mongoemu cannot replace it: waits for retries run in virtual
// time, in which sockets cannot be used.
type Collection struct {
	// Before runs before each command, outside of any lock; its error fails the command.
	Before func(ctx context.Context, command string) error

	mu       sync.Mutex
	markers  map[Key]bson.M
	commands map[string]int
}

// NewCollection makes an empty collection.
func NewCollection() *Collection {
	return &Collection{markers: make(map[Key]bson.M), commands: make(map[string]int)}
}

// Marker returns a copy of a marker without its _id; nil if there is none.
func (c *Collection) Marker(key Key) bson.M {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.markers[key])
}

// Keys returns the keys of all markers.
func (c *Collection) Keys() []Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.markers))
}

// Set sets a field of a marker, as another process would.
func (c *Collection) Set(key Key, field string, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.markers[key][field] = value
}

// Delete deletes a marker, as an operator does.
func (c *Collection) Delete(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.markers, key)
}

// Commands counts the commands of one name: find, findAndModify, bulkWrite, delete,
// aggregate.
func (c *Collection) Commands(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands[name]
}

// begin starts a command; the caller unlocks.
func (c *Collection) begin(ctx context.Context, command string) error {
	if c.Before != nil {
		if err := c.Before(ctx, command); err != nil {
			c.mu.Lock()
			return err
		}
	}
	c.mu.Lock()
	c.commands[command]++
	return context.Cause(ctx)
}

// Find returns the markers that match.
func (c *Collection) Find(ctx context.Context, filter any, _ ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	defer c.mu.Unlock()
	if err := c.begin(ctx, "find"); err != nil {
		return nil, err
	}
	var found []any
	for _, key := range c.matching(filter) {
		document := maps.Clone(c.markers[key])
		document["_id"] = key
		found = append(found, document)
	}
	return mongo.NewCursorFromDocuments(found, nil, nil)
}

// FindOneAndUpdate updates the matching marker that has been due for longest, and returns
// it as it was before.
func (c *Collection) FindOneAndUpdate(ctx context.Context, filter, update any, _ ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	defer c.mu.Unlock()
	if err := c.begin(ctx, "findAndModify"); err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	keys := c.matching(filter)
	if len(keys) == 0 {
		return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
	}
	key := slices.MinFunc(keys, func(a, b Key) int {
		return compare(c.markers[a]["retryAt"], c.markers[b]["retryAt"])
	})
	before := maps.Clone(c.markers[key])
	before["_id"] = key
	c.change(key, decode(update), false)
	return mongo.NewSingleResultFromDocument(before, nil, nil)
}

// BulkWrite carries out updates of single markers.
func (c *Collection) BulkWrite(ctx context.Context, models []mongo.WriteModel, _ ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	defer c.mu.Unlock()
	if err := c.begin(ctx, "bulkWrite"); err != nil {
		return nil, err
	}
	result := &mongo.BulkWriteResult{}
	for _, write := range models {
		u, ok := write.(*mongo.UpdateOneModel)
		if !ok {
			panic(fmt.Sprintf("parktest: a bulk write of %T", write))
		}
		keys := c.matching(u.Filter)
		switch {
		case len(keys) > 0:
			result.MatchedCount++
			c.change(keys[0], decode(u.Update), false)
		case u.Upsert != nil && *u.Upsert:
			var id struct {
				ID Key `bson:"_id"`
			}
			reencode(u.Filter, &id)
			result.UpsertedCount++
			c.markers[id.ID] = bson.M{}
			c.change(id.ID, decode(u.Update), true)
		}
	}
	return result, nil
}

// DeleteOne deletes one marker that matches.
func (c *Collection) DeleteOne(ctx context.Context, filter any, _ ...options.Lister[options.DeleteOneOptions]) (*mongo.DeleteResult, error) {
	defer c.mu.Unlock()
	if err := c.begin(ctx, "delete"); err != nil {
		return nil, err
	}
	keys := c.matching(filter)
	if len(keys) == 0 {
		return &mongo.DeleteResult{}, nil
	}
	delete(c.markers, keys[0])
	return &mongo.DeleteResult{DeletedCount: 1}, nil
}

// DeleteMany deletes the markers that match.
func (c *Collection) DeleteMany(ctx context.Context, filter any, _ ...options.Lister[options.DeleteManyOptions]) (*mongo.DeleteResult, error) {
	defer c.mu.Unlock()
	if err := c.begin(ctx, "delete"); err != nil {
		return nil, err
	}
	keys := c.matching(filter)
	for _, key := range keys {
		delete(c.markers, key)
	}
	return &mongo.DeleteResult{DeletedCount: int64(len(keys))}, nil
}

// Aggregate counts the markers that a first stage chooses, or all by projection,
// generation, reason and whether they are discarded.
func (c *Collection) Aggregate(ctx context.Context, pipeline any, _ ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error) {
	defer c.mu.Unlock()
	if err := c.begin(ctx, "aggregate"); err != nil {
		return nil, err
	}
	if stages, _ := pipeline.(bson.A); len(stages) == 2 {
		matched := c.matching(decode(stages[0])[0].Value)
		return mongo.NewCursorFromDocuments([]any{bson.D{{Key: "count", Value: int64(len(matched))}}}, nil, nil)
	}
	counts := make(map[group]int64)
	for key, marker := range c.markers {
		reason, _ := marker["reason"].(string)
		discarded := reflect.DeepEqual(path(marker, "$discarded.eventId"), marker["eventId"])
		counts[group{Projection: key.Projection, Generation: key.Generation, Reason: reason, Discarded: discarded}]++
	}
	var groups []any
	for g, n := range counts {
		groups = append(groups, bson.D{{Key: "_id", Value: g}, {Key: "count", Value: n}})
	}
	return mongo.NewCursorFromDocuments(groups, nil, nil)
}

// matching gives the keys of the markers that match a filter, in a fixed order.
func (c *Collection) matching(filter any) []Key {
	conditions := decode(filter)
	var keys []Key
	for key, marker := range c.markers {
		if matches(key, marker, conditions) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Projection, b.Projection), strings.Compare(a.AggregateID, b.AggregateID), cmp.Compare(a.Generation, b.Generation))
	})
	return keys
}

func matches(key Key, marker bson.M, conditions bson.D) bool {
	for _, condition := range conditions {
		if condition.Key == "$or" {
			alternatives, _ := condition.Value.(bson.A)
			if !slices.ContainsFunc(alternatives, func(a any) bool { return matches(key, marker, decode(a)) }) {
				return false
			}
			continue
		}
		if condition.Key == "$expr" {
			if !compares(marker, decode(condition.Value)) {
				return false
			}
			continue
		}
		var value any
		exists := true
		switch condition.Key {
		case "_id.aggregateId":
			value = key.AggregateID
		case "_id":
			value = decode(key)
		case "_id.projection":
			value = key.Projection
		case "_id.generation":
			value = key.Generation
			if exists = key.Generation != 0; !exists && condition.Value == nil {
				continue
			}
		default:
			value, exists = marker[condition.Key]
		}
		if !holds(value, exists, condition.Value) {
			return false
		}
	}
	return true
}

// compares evaluates a comparison of two fields, the only expression that the store uses.
func compares(marker bson.M, expression bson.D) bool {
	fields, _ := expression[0].Value.(bson.A)
	equal := reflect.DeepEqual(path(marker, fields[0]), path(marker, fields[1]))
	switch expression[0].Key {
	case "$eq":
		return equal
	case "$ne":
		return !equal
	}
	panic(fmt.Sprintf("parktest: expression %v", expression))
}

// path gives the value of a field path, such as $discarded.eventId; nil if there is none.
func path(marker bson.M, fieldPath any) any {
	name, _ := fieldPath.(string)
	name, inner, nested := strings.Cut(strings.TrimPrefix(name, "$"), ".")
	if !nested {
		return marker[name]
	}
	document, _ := marker[name].(bson.D)
	for _, e := range document {
		if e.Key == inner {
			return e.Value
		}
	}
	return nil
}

// holds reports whether a value meets a condition: a value, or one operator.
func holds(value any, exists bool, condition any) bool {
	d, ok := condition.(bson.D)
	if !ok || len(d) == 0 || d[0].Key[0] != '$' {
		return exists && reflect.DeepEqual(value, condition)
	}
	if len(d) != 1 {
		panic(fmt.Sprintf("parktest: condition %v", d))
	}
	operand := d[0].Value
	switch d[0].Key {
	case "$in":
		list, _ := operand.(bson.A)
		return exists && slices.ContainsFunc(list, func(v any) bool { return reflect.DeepEqual(v, value) })
	case "$ne":
		return !exists || !reflect.DeepEqual(value, operand)
	case "$lte":
		return exists && compare(value, operand) <= 0
	case "$gt":
		return exists && compare(value, operand) > 0
	case "$lt":
		return exists && compare(value, operand) < 0
	case "$exists":
		return exists == operand
	}
	panic(fmt.Sprintf("parktest: operator %s", d[0].Key))
}

// compare compares two numbers or two times.
func compare(a, b any) int {
	switch a := a.(type) {
	case int64:
		b, _ := b.(int64)
		return int(max(-1, min(1, a-b)))
	case bson.DateTime:
		b, _ := b.(bson.DateTime)
		return int(max(-1, min(1, a-b)))
	}
	return 0
}

// change carries out an update.
func (c *Collection) change(key Key, update bson.D, inserting bool) {
	marker := c.markers[key]
	for _, operator := range update {
		fields, _ := operator.Value.(bson.D)
		for _, field := range fields {
			switch operator.Key {
			case "$set":
				marker[field.Key] = field.Value
			case "$setOnInsert":
				if inserting {
					marker[field.Key] = field.Value
				}
			case "$unset":
				delete(marker, field.Key)
			case "$max":
				if have, ok := marker[field.Key]; !ok || compare(field.Value, have) > 0 {
					marker[field.Key] = field.Value
				}
			default:
				panic(fmt.Sprintf("parktest: operator %s", operator.Key))
			}
		}
	}
}

// decode gives a command as the server reads it.
func decode(command any) bson.D {
	var d bson.D
	reencode(command, &d)
	return d
}

func reencode(from, to any) {
	raw, err := bson.Marshal(from)
	if err == nil {
		err = bson.Unmarshal(raw, to)
	}
	if err != nil {
		panic(err)
	}
}
