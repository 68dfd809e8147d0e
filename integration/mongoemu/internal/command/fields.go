package command

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// isGeneric reports whether every command accepts a field.
func isGeneric(key string) bool {
	switch key {
	case "$db", "lsid", "txnNumber", "autocommit", "startTransaction", "maxTimeMS", "writeConcern", "readConcern",
		"$clusterTime", "$readPreference", "comment", "apiVersion", "apiStrict", "apiDeprecationErrors", "stmtId", "stmtIds":
		return true
	}
	return false
}

// options calls set for each field of the command that is not generic. It also calls set
// for each document sequence, with an absent value. A field that set does not know is an
// error.
func (r *Request) options(set func(key string, v bsonraw.Value) (known bool, err error)) error {
	it := bsonraw.NewIter(r.Body)
	it.Next()
	for it.Next() {
		if key := string(it.Key()); !isGeneric(key) {
			if err := r.option(set, key, it.Value()); err != nil {
				return err
			}
		}
	}
	for _, list := range r.lists {
		if _, twice := bsonraw.Lookup(r.Body, list.Name); twice {
			return mongoerr.New(40433, "Duplicate field between body and document sequence %s", list.Name)
		}
		if err := r.option(set, list.Name, bsonraw.Missing); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) option(set func(key string, v bsonraw.Value) (known bool, err error), key string, v bsonraw.Value) error {
	known, err := set(key, v)
	if err == nil && !known {
		err = mongoerr.New(40415, "BSON field '%s.%s' is an unknown field.", r.Name, key)
	}
	return err
}

// noOptions returns an error if there are fields that are not generic.
func (r *Request) noOptions() error {
	return r.options(func(string, bsonraw.Value) (bool, error) { return false, nil })
}

// collection returns the collection in the command's first field.
func (r *Request) collection() (store.Namespace, error) {
	if r.value.Type != bsoncore.TypeString {
		return store.Namespace{}, mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", bsonraw.TypeName(r.value.Type))
	}
	ns := store.Namespace{DB: r.DB, Coll: string(bsonraw.Text(r.value))}
	if ns.Coll == "" {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s.'", r.DB)
	}
	return ns, nil
}

// writable returns [Request.collection] and checks that clients may write to it.
func (r *Request) writable() (store.Namespace, error) {
	ns, err := r.collection()
	if err != nil {
		return ns, err
	}
	return ns, store.CheckNamespace(ns)
}

// flag parses a boolean option. Like the server, it accepts numbers and ignores null.
func (r *Request) flag(field string, v bsonraw.Value, into *bool) error {
	switch {
	case v.Type == bsoncore.TypeBoolean, bsonraw.IsNumber(v):
		*into = bsonraw.Truthy(v)
		return nil
	case v.Type == bsoncore.TypeNull, v.Type == bsoncore.TypeUndefined:
		return nil
	}
	return wrongType(r.Name, field, v, "bool, long, int, decimal or double")
}

// unset parses a boolean option that this server only supports as false.
func (r *Request) unset(field string, v bsonraw.Value) error {
	set := false
	if err := r.flag(field, v, &set); err != nil || !set {
		return err
	}
	return mongoerr.Lacking("the %s option %q", r.Name, field)
}

// list returns a command's list of documents, from a document sequence or from an array
// in the body.
func (r *Request) list(name string) ([][]byte, error) {
	for _, s := range r.lists {
		if s.Name == name {
			return s.Docs, nil
		}
	}
	v, ok := bsonraw.Lookup(r.Body, name)
	if !ok {
		return nil, mongoerr.New(40414, "BSON field '%s.%s' is missing but a required field", r.Name, name)
	}
	if v.Type != bsoncore.TypeArray {
		return nil, wrongType(r.Name, name, v, "array")
	}
	var docs [][]byte
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		if it.Value().Type != bsoncore.TypeEmbeddedDocument {
			return nil, wrongType(r.Name, name+"."+string(it.Key()), it.Value(), "object")
		}
		docs = append(docs, it.Value().Data)
	}
	return docs, nil
}

func wrongType(command, field string, v bsonraw.Value, want string) error {
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s.%s' is the wrong type '%s', expected type '%s'", command, field, bsonraw.TypeName(v.Type), want)
}
