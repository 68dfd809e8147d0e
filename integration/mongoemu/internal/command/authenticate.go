package command

import (
	"context"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// The mechanisms of drivers that have no other setting. Users have credentials for the first
// only.
const (
	scramSHA256 = "SCRAM-SHA-256"
	scramSHA1   = "SCRAM-SHA-1"
)

// mechanismUnavailable is the code for a mechanism that the server does not have.
const mechanismUnavailable mongoerr.Code = 334

// refused is the error of every failed authentication. Like a real server, it does not say
// whether the user or the password is wrong.
func refused() error {
	return mongoerr.New(mongoerr.AuthenticationFailed, "Authentication failed.")
}

// saslStart begins an authentication.
func saslStart(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	var mechanism string
	var payload []byte
	var skipEmpty bool
	err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		switch key {
		case "mechanism":
			if v.Type != bsoncore.TypeString {
				return true, wrongType(r.Name, key, v, "string")
			}
			mechanism = string(bsonraw.Text(v))
		case "payload":
			var err error
			payload, err = payloadOf(r, v)
			return true, err
		case "options":
			if v.Type != bsoncore.TypeEmbeddedDocument {
				return true, wrongType(r.Name, key, v, "object")
			}
			skip, _ := bsonraw.Lookup(v.Data, "skipEmptyExchange")
			skipEmpty = bsonraw.Truthy(skip)
		case "autoAuthorize":
		default:
			return false, nil
		}
		return true, nil
	})
	switch {
	case err != nil:
		return err
	case mechanism == scramSHA1:
		return refused()
	case mechanism != scramSHA256:
		return mongoerr.New(mechanismUnavailable, "Received authentication for mechanism %s which is not enabled", mechanism)
	}
	talk, err := e.Users.converse(skipEmpty)
	if err != nil {
		return err
	}
	r.conn.talk = talk
	return r.proceed(b, payload)
}

// saslContinue continues an authentication.
func saslContinue(_ context.Context, _ *Engine, r *Request, b *bsonraw.Builder) error {
	var payload []byte
	err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		switch key {
		case "payload":
			var err error
			payload, err = payloadOf(r, v)
			return true, err
		case "conversationId":
			if n, ok := bsonraw.Int64(v); !ok || n != conversationID {
				return true, mongoerr.New(mongoerr.ProtocolError, "sasl: Mismatched conversation id")
			}
		default:
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if r.conn.talk == nil {
		return mongoerr.New(mongoerr.ProtocolError, "No SASL session state found")
	}
	return r.proceed(b, payload)
}

// conversationID is the id of a connection's only conversation.
const conversationID = 1

// proceed answers one message of the connection's conversation.
func (r *Request) proceed(b *bsonraw.Builder, payload []byte) error {
	talk := r.conn.talk
	if talk.Valid() { // the empty exchange at the end
		r.conn.talk = nil
		b.Int32("conversationId", conversationID).Bool("done", true).Binary("payload", 0, nil)
		return nil
	}
	answer, err := talk.Step(string(payload))
	if err != nil {
		r.conn.talk = nil
		return refused()
	}
	done := false
	if talk.Valid() {
		r.conn.user, r.conn.userName = talk.user, talk.Username()
		if done = talk.skipEmpty; done {
			r.conn.talk = nil
		}
	}
	b.Int32("conversationId", conversationID).Bool("done", done).Binary("payload", 0, []byte(answer))
	return nil
}

func payloadOf(r *Request, v bsonraw.Value) ([]byte, error) {
	if v.Type != bsoncore.TypeBinary {
		return nil, wrongType(r.Name, "payload", v, "binData")
	}
	_, data := v.Binary()
	return data, nil
}

// mechanisms adds to hello how the user can authenticate that the client asks about, as
// database.name. An unknown user has no such field.
func (e *Engine) mechanisms(b *bsonraw.Builder, asked string) {
	_, name, _ := strings.Cut(asked, ".")
	if known, _ := e.Users.find(name); known != nil {
		b.Strings("saslSupportedMechs", scramSHA256)
	}
}
