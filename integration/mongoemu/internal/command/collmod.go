package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func collMod(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	set := bsonraw.NewBuilder(256)
	var change *store.IndexChange
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "validator", "validationLevel", "validationAction":
			set.Value(key, v)
		case "index":
			change, err = parseIndexChange(r, v)
		case "viewOn", "pipeline", "expireAfterSeconds", "timeseries", "changeStreamPreAndPostImages", "cappedSize", "cappedMax",
			"recordPreImages", "dryRun":
			err = mongoerr.Lacking("the collMod option %q", key)
		default:
			return false, nil
		}
		return true, err
	}); err != nil {
		return err
	}
	fields := set.Bytes()
	return e.exclusively(ctx, func(w *store.Writer) error {
		before, after, err := w.Modify(ns, fields, change)
		if err != nil {
			return err
		}
		if change != nil {
			describeChange(b, change, before, after)
		}
		e.acknowledge(r, b)
		return nil
	}, ns)
}

func parseIndexChange(r *Request, v bsonraw.Value) (*store.IndexChange, error) {
	doc, err := documentOption(r, "index", v)
	if err != nil {
		return nil, err
	}
	c := &store.IndexChange{}
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		switch key := string(it.Key()); key {
		case "name":
			if v.Type != bsoncore.TypeString {
				return nil, wrongType(r.Name, "index.name", v, "string")
			}
			c.Name = string(bsonraw.Text(v))
		case "keyPattern":
			c.Pattern, err = documentOption(r, "index.keyPattern", v)
		case "expireAfterSeconds":
			n, ok := bsonraw.Int64(v)
			if !ok || n < 0 || n > 1<<31-1 {
				return nil, mongoerr.New(mongoerr.InvalidOptions, "TTL index 'expireAfterSeconds' option must be within an acceptable range, got %s", bsonraw.Format(v))
			}
			seconds := int32(n)
			c.ExpireAfter = &seconds
		case "hidden":
			hidden := false
			err = r.flag("index.hidden", v, &hidden)
			c.Hidden = &hidden
		case "unique", "prepareUnique":
			err = mongoerr.Lacking("collMod of an index's %q", key)
		default:
			err = mongoerr.New(40415, "BSON field 'collMod.index.%s' is an unknown field.", key)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case c.Name == "" && c.Pattern == nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Must specify either index name or key pattern.")
	case c.Name != "" && c.Pattern != nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Cannot specify both key pattern and name.")
	case c.ExpireAfter == nil && c.Hidden == nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "no expireAfterSeconds, hidden, unique, or prepareUnique field")
	case c.Hidden != nil && (c.Name == "_id_" || c.Pattern != nil && isIDPattern(c.Pattern)):
		return nil, mongoerr.New(mongoerr.BadValue, "can't hide _id index")
	}
	return c, nil
}

func describeChange(b *bsonraw.Builder, change *store.IndexChange, before, after *store.Index) {
	if change.ExpireAfter != nil && (before.ExpireAfter == nil || *before.ExpireAfter != *after.ExpireAfter) {
		if before.ExpireAfter != nil {
			b.Int64("expireAfterSeconds_old", int64(*before.ExpireAfter))
		}
		b.Int64("expireAfterSeconds_new", int64(*after.ExpireAfter))
	}
	if change.Hidden != nil && before.Hidden != after.Hidden {
		b.Bool("hidden_old", before.Hidden).Bool("hidden_new", after.Hidden)
	}
}
