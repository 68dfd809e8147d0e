package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Expire makes one pass over all TTL indexes and deletes expired documents. It skips
// documents that a transaction has reserved until the next pass.
func (s *Store) Expire(ctx context.Context) error {
	type job struct {
		ns    Namespace
		index string
	}
	var jobs []job
	_ = s.View(nil, func(v *Viewer) error {
		for ns, c := range v.store.collections {
			for _, x := range c.indexes {
				if x.ExpireAfter != nil {
					jobs = append(jobs, job{ns, x.Name})
				}
			}
		}
		return nil
	})
	for _, j := range jobs {
		if err := s.expireIndex(ctx, j.ns, j.index); err != nil {
			return err
		}
	}
	return nil
}

// expireBatch is the number of documents to delete while the lock is held once.
const expireBatch = 500

func (s *Store) expireIndex(ctx context.Context, ns Namespace, name string) error {
	for {
		more := false
		err := s.Do(ctx, nil, func(w *Writer) error {
			more = false
			c := w.Collection(ns)
			if c == nil || c.index(name) == nil {
				return nil
			}
			expired, err := w.expired(c, c.index(name))
			if err != nil {
				return err
			}
			deleted := 0
			for _, r := range expired {
				switch err := w.Remove(c, r); {
				case err == nil:
					deleted++
				case !Blocked(err):
					return err
				}
			}
			more = deleted > 0 && len(expired) == expireBatch
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
}

// expired returns records whose date, or the earliest date of an array, is older than the
// TTL, at most expireBatch of them.
func (w *Writer) expired(c *Collection, x *Index) ([]*Record, error) {
	limit := w.store.now().Add(-time.Duration(*x.ExpireAfter) * time.Second).UnixMilli()
	dates := query.Path(x.Parts[0].Path)
	key, err := bsonraw.AppendKey(nil, bsonraw.DateValue(limit))
	if err != nil {
		return nil, err
	}
	v := interval{string(key[:1]), successor(string(key))}
	if x.Parts[0].Desc {
		v = v.invert()
	}
	var found []*Record
	s := scan{plan: Plan{Index: x.Name, intervals: []interval{v}}}
	s.each(c, func(r *Record) bool {
		old := dates.Walk(r.Doc, true, func(v bsonraw.Value) bool {
			return v.Type == bsoncore.TypeDateTime && v.DateTime() <= limit
		})
		if old {
			found = append(found, r)
		}
		return len(found) < expireBatch
	})
	return found, nil
}
