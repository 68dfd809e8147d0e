package store_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func count(t *testing.T, s *store.Store) int {
	t.Helper()
	n := 0
	_ = s.View(nil, func(v *store.Viewer) error { n = v.Collection(ns).Len(); return nil })
	return n
}

// Documents are deleted at the first pass after their expiry, many in one pass. Documents
// that a transaction holds are deleted at the first pass after it ends.
func TestExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		ctx := t.Context()
		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // virtual time
			if err := s.Expire(ctx); err != nil {
				t.Fatal(err)
			}
		}
		seconds := int32(90)
		insert := func(id any, at time.Time) error {
			return s.Do(ctx, nil, func(w *store.Writer) error {
				return w.Insert(ns, bsonraw.MustMarshal(bson.D{{Key: "_id", Value: id}, {Key: "at", Value: at}}))
			})
		}
		for i := range 1200 {
			if err := insert(i, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := insert("later", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		err := s.Do(ctx, nil, func(w *store.Writer) error {
			_, err := w.CreateIndexes(ns, store.IndexSpec{Name: "ttl", Pattern: bsonraw.MustMarshal(bson.D{{Key: "at", Value: -1}}), ExpireAfter: &seconds})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		tx := s.Begin()
		err = s.Do(ctx, tx, func(w *store.Writer) error {
			c := w.Collection(ns)
			found, err := w.Select(c, matcher(t, bson.D{{Key: "_id", Value: 7}}), nil, store.Hint{}, 1)
			if err != nil || len(found) != 1 {
				return fmt.Errorf("found %d, %w", len(found), err)
			}
			return w.Replace(c, found[0], bsonraw.MustMarshal(bson.D{{Key: "_id", Value: 7}, {Key: "x", Value: 1}, {Key: "at", Value: time.Now()}}), nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			left int
		}{{61 * time.Second, 1201}, {time.Minute, 2}, {time.Minute, 2}} {
			pass(step.wait)
			if n := count(t, s); n != step.left {
				t.Errorf("%d documents left, want %d", n, step.left)
			}
		}
		tx.Abort()
		pass(time.Minute)
		if n := count(t, s); n != 1 {
			t.Errorf("%d documents left, want the one of later", n)
		}
	})
}
