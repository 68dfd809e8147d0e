package command

import (
	"context"
	"crypto/rand"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
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

func startSession(_ context.Context, _ *Engine, r *Request, b *bsonraw.Builder) error {
	if err := r.noOptions(); err != nil {
		return err
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	b.Start("id").Binary("id", 4, id[:]).End().Int32("timeoutMinutes", int32(session.Timeout.Minutes()))
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

func refreshSessions(_ context.Context, e *Engine, r *Request, _ *bsonraw.Builder) error {
	ids, err := r.lsids()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := e.Sessions.Get(id); err != nil {
			return err
		}
	}
	return nil
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

func killAllSessions(_ context.Context, e *Engine, r *Request, _ *bsonraw.Builder) error {
	patterns, err := r.lsids()
	if err != nil {
		return err
	}
	if len(patterns) > 0 {
		return mongoerr.Lacking("%s with patterns", r.Name)
	}
	e.cursors.killAll()
	e.Sessions.AbortAll()
	return nil
}
