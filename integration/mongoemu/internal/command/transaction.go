package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

func commitTransaction(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if err := r.options(func(key string, _ bsonraw.Value) (bool, error) {
		return key == "recoveryToken", nil
	}); err != nil {
		return err
	}
	if r.autocommit == nil {
		return mongoerr.New(mongoerr.InvalidOptions, "commitTransaction must be run within a transaction")
	}
	if err := r.session.Commit(*r.number); err != nil {
		return err
	}
	e.acknowledge(r, b)
	return nil
}

func abortTransaction(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if err := r.options(func(key string, _ bsonraw.Value) (bool, error) {
		return key == "recoveryToken", nil
	}); err != nil {
		return err
	}
	if r.autocommit == nil {
		return mongoerr.New(mongoerr.InvalidOptions, "abortTransaction must be run within a transaction")
	}
	if err := r.session.Abort(*r.number); err != nil {
		return err
	}
	e.acknowledge(r, b)
	return nil
}

// lsids returns the list of sessions in the command's first field.
func (r *Request) lsids() ([][]byte, error) {
	if r.value.Type != bsoncore.TypeArray {
		return nil, wrongType(r.Name, r.Name, r.value, "array")
	}
	var ids [][]byte
	for _, v := range bsonraw.Elements(r.value.Data) {
		if v.Type != bsoncore.TypeEmbeddedDocument {
			return nil, wrongType(r.Name, r.Name, v, "object")
		}
		ids = append(ids, v.Data)
	}
	return ids, nil
}

// endSessions only checks its argument. The server lets go of ended sessions later, and an open
// transaction lives until it expires.
func endSessions(_ context.Context, _ *Engine, r *Request, _ *bsonraw.Builder) error {
	_, err := r.lsids()
	return err
}

func killSessions(_ context.Context, e *Engine, r *Request, _ *bsonraw.Builder) error {
	ids, err := r.lsids()
	if err != nil {
		return err
	}
	for _, lsid := range ids {
		if id, ok := bsonraw.Lookup(lsid, "id"); ok {
			e.cursors.ofSession(string(id.Data))
		}
	}
	e.Sessions.Kill(ids)
	return nil
}
