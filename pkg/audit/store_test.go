package audit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// collection is the audit in memory, with the operators that the store uses. The stand-in
// mongoemu is in module integration, whose end-to-end tests read and write the audit there.
type collection struct {
	entries []bson.D
	err     error
}

func (c *collection) UpdateOne(_ context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	if c.err != nil {
		return nil, c.err
	}
	id := filter.(bson.D)[0].Value
	at := slices.IndexFunc(c.entries, func(e bson.D) bool { return e[0].Value == id })
	if at < 0 {
		if len(opts) == 0 {
			return &mongo.UpdateResult{}, nil
		}
		at = len(c.entries)
		c.entries = append(c.entries, bson.D{{Key: "_id", Value: id}})
	}
	for _, operator := range update.(bson.D) {
		for _, field := range operator.Value.(bson.D) {
			if operator.Key == "$currentDate" {
				field.Value = time.Now()
			}
			c.entries[at] = slices.DeleteFunc(c.entries[at], func(e bson.E) bool { return e.Key == field.Key })
			c.entries[at] = append(c.entries[at], field)
		}
	}
	return &mongo.UpdateResult{MatchedCount: 1}, nil
}

func (c *collection) Find(_ context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	if c.err != nil {
		return nil, c.err
	}
	var o options.FindOptions
	for _, lister := range opts {
		for _, set := range lister.List() {
			if err := set(&o); err != nil {
				return nil, err
			}
		}
	}
	var found []any
	for _, e := range slices.Backward(c.entries) {
		if f := filter.(bson.D); len(f) > 0 {
			bounds := f[0].Value.(bson.D)
			command := e[slices.IndexFunc(e, func(e bson.E) bool { return e.Key == "command" })].Value.(string)
			if command < bounds[0].Value.(string) || command >= bounds[1].Value.(string) {
				continue
			}
		}
		found = append(found, e)
	}
	if o.Skip != nil {
		found = found[min(len(found), int(*o.Skip)):]
	}
	return mongo.NewCursorFromDocuments(found[:min(len(found), int(*o.Limit))], nil, nil)
}

func (c *collection) DeleteMany(_ context.Context, filter any, _ ...options.Lister[options.DeleteManyOptions]) (*mongo.DeleteResult, error) {
	last := filter.(bson.D)[0].Value.(bson.D)[0].Value.(string)
	c.entries = slices.DeleteFunc(c.entries, func(e bson.D) bool { return e[0].Value.(string) <= last })
	return &mongo.DeleteResult{}, c.err
}

var retry = Entry{Who: "ada@pod", Command: "parked retry", What: "2 aggregates", Why: "the definition is corrected"}

func TestDoRecordsTheChangeBeforeAndAfter(t *testing.T) {
	t.Parallel()
	c := &collection{}
	s := NewStore(c)
	err := s.Do(t.Context(), retry, func(ctx context.Context) (map[string]int64, error) {
		during, err := s.List(ctx, "", 1)
		if err != nil || len(during) != 1 || during[0].Outcome != Begun || during[0].EndedAt != nil {
			t.Errorf("during the change: %+v, %v", during, err)
		}
		return map[string]int64{"retried": 2}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.List(t.Context(), "parked", 10)
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries %+v, %v", entries, err)
	}
	e := entries[0]
	if e.Who != retry.Who || e.Command != retry.Command || e.What != retry.What || e.Why != retry.Why || e.Outcome != Done || e.Counts["retried"] != 2 || e.At.IsZero() || e.EndedAt == nil {
		t.Errorf("entry %+v", e)
	}
	if others, err := s.List(t.Context(), "jobs", 10); err != nil || len(others) != 0 {
		t.Errorf("entries of another command: %+v, %v", others, err)
	}
}

func TestDoRecordsAChangeThatFailsOrIsInterrupted(t *testing.T) {
	t.Parallel()
	s := NewStore(&collection{})
	ctx, cancel := context.WithCancel(t.Context())
	refused := errors.New(strings.Repeat("ä", maxTextBytes))
	err := s.Do(ctx, retry, func(context.Context) (map[string]int64, error) {
		cancel()
		return map[string]int64{"retried": 1}, refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	entries, err := s.List(t.Context(), "", 10)
	if err != nil || len(entries) != 1 || entries[0].Outcome != Failed || entries[0].Counts["retried"] != 1 || len(entries[0].Error) > maxTextBytes || !strings.HasPrefix(entries[0].Error, "ä") {
		t.Errorf("entries %+v, %v", entries, err)
	}
}

func TestDoChangesNothingIfTheAuditCannotBeWritten(t *testing.T) {
	t.Parallel()
	c := &collection{err: errors.New("not the primary")}
	err := NewStore(c).Do(t.Context(), retry, func(context.Context) (map[string]int64, error) {
		t.Error("the change was made")
		return nil, nil
	})
	if !errors.Is(err, c.err) {
		t.Errorf("error %v", err)
	}
}

func TestAuditKeepsTheLastEntries(t *testing.T) {
	t.Parallel()
	c := &collection{}
	s := NewStore(c)
	s.keep = 3
	for _, what := range []string{"1", "2", "3", "4", "5"} {
		if _, err := s.Begin(t.Context(), Entry{Command: "parked retry", What: what}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := s.List(t.Context(), "", Keep)
	if err != nil || len(entries) != 3 || entries[0].What != "5" || entries[2].What != "3" {
		t.Errorf("entries %+v, %v", entries, err)
	}
}
