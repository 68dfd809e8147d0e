package mongox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// All returns the function that reads all records of a cursor on a collection:
// All[T](ctx, c)(c.Find(ctx, …)).
//
// If the types of some records are not those of T, All returns the others with an
// [UnreadableError]. A caller that decides by the records must fail then. A caller that lists
// them for people, or works on each of them alone, can leave the unreadable ones out with
// [Omissions].
func All[T any](ctx context.Context, of interface{ Name() string }) func(*mongo.Cursor, error) ([]T, error) {
	return func(cursor *mongo.Cursor, err error) (all []T, _ error) {
		if err != nil {
			return nil, err
		}
		defer func() { _ = cursor.Close(ctx) }()
		unreadable := &UnreadableError{Collection: of.Name()}
		for cursor.Next(ctx) {
			var record T
			// cursor.Decode would allocate a buffer of 4 KiB for each record (mongo-driver 2.9.3).
			if err := bson.Unmarshal(cursor.Current, &record); err != nil {
				unreadable.Add(slices.Clone(cursor.Current), err)
				continue
			}
			all = append(all, record)
		}
		if err := cursor.Err(); err != nil {
			return all, err
		}
		return all, unreadable.OrNil()
	}
}

// UnreadableError says that records of a collection cannot be decoded, because fields have
// another type than this version writes: somebody made them by hand, or another version did.
type UnreadableError struct {
	Collection string
	Records    []bson.Raw
	// Reasons has the reason for each record.
	Reasons []error
}

// Add adds a record, and the reason why it cannot be decoded.
func (e *UnreadableError) Add(record bson.Raw, reason error) {
	e.Records, e.Reasons = append(e.Records, record), append(e.Reasons, reason)
}

// OrNil returns nil if there is no record.
func (e *UnreadableError) OrNil() error {
	if len(e.Records) == 0 {
		return nil
	}
	return e
}

// Error implements error.
func (e *UnreadableError) Error() string {
	more := ""
	if n := len(e.Records) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return e.text(0, more)
}

// text describes one of the records.
func (e *UnreadableError) text(i int, more string) string {
	return fmt.Sprintf("the record with the _id %s%s of collection %s cannot be read: %v; correct or delete it", e.Records[i].Lookup("_id"), more, e.Collection, e.Reasons[i])
}

// Unwrap returns the reason of the first record.
func (e *UnreadableError) Unwrap() error { return e.Reasons[0] }

// maxOmissions bounds the records that an [Omissions] reports.
const maxOmissions = 1000

// Omissions reports the records that a reader leaves out because they cannot be read. The
// zero value is ready. It is safe for concurrent use.
type Omissions struct {
	mu       sync.Mutex
	reported map[string]struct{}
}

// Report returns nil if err is an [UnreadableError], and err otherwise. It logs each
// unreadable record once.
func (o *Omissions) Report(err error, logger zerolog.Logger) error {
	unreadable, ok := errors.AsType[*UnreadableError](err)
	if !ok {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reported == nil {
		o.reported = map[string]struct{}{}
	}
	for i := range unreadable.Records {
		text := unreadable.text(i, "")
		if _, ok := o.reported[text]; ok || len(o.reported) >= maxOmissions {
			continue
		}
		o.reported[text] = struct{}{}
		logger.Warn().Str("reason", text).Msg("unreadable record left out")
	}
	return nil
}
