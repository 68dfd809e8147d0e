package event

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// IDKind is the type of aggregate ids in the event store. A stream has one: the string "42" and
// the integer 42 would share messages, a session and a read model. The zero value is unknown.
type IDKind string

// The kinds of ids. That of older UUIDs also has their representation: "UUID csharpLegacy".
const (
	IDString   IDKind = "string"
	IDInteger  IDKind = "integer"
	IDObjectID IDKind = "ObjectId"
	IDUUID     IDKind = "UUID"
)

// KindOf gives the kind of a valid aggregate id.
func (r *Reader) KindOf(id bson.RawValue) IDKind {
	switch id.Type {
	case bson.TypeString:
		return IDString
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
		return IDInteger
	case bson.TypeObjectID:
		return IDObjectID
	default:
		if id.Value[4] == bson.TypeBinaryUUIDOld {
			return IDUUID + " " + IDKind(r.uuids)
		}
		return IDUUID
	}
}

// Only lets the reader read events whose aggregate ids are of that kind. All other events break
// the contract. The zero kind allows all.
func (r *Reader) Only(kind IDKind) { r.only.Store(&kind) }

// IDKind gives the kind that [Reader.Only] has set.
func (r *Reader) IDKind() IDKind {
	if only := r.only.Load(); only != nil {
		return *only
	}
	return ""
}

// checkKind fails if the stream has aggregate ids of another kind.
func (r *Reader) checkKind(id bson.RawValue) error {
	if only := r.IDKind(); only != "" && only != r.KindOf(id) {
		return &ContractError{Reason: ReasonWrongType, Field: r.names[fieldAggregateID], Detail: fmt.Sprintf("%s, but the ids of this event store are of type %s", r.KindOf(id), only)}
	}
	return nil
}
