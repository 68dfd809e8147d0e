package projection

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// The types of values for which CEL has no type. Expressions pass them on unchanged.
// Apart from Decimal128, a value equals only the same value of the same type and has no
// order. string() accepts those with a text form.
var (
	typeObjectID   = types.NewOpaqueType("bson.ObjectId")
	typeUUID       = types.NewOpaqueType("bson.UUID")
	typeDecimal128 = types.NewOpaqueType("bson.Decimal128")
	typeOlderUUID  = types.NewOpaqueType("bson.OlderUUID")
	typeOther      = types.NewOpaqueType("bson.Value")
)

// opaque is a value of one of these types.
type opaque struct {
	raw bson.RawValue
}

var _ ref.Val = opaque{}

func (o opaque) Type() ref.Type {
	switch o.raw.Type {
	case bson.TypeObjectID:
		return typeObjectID
	case bson.TypeDecimal128:
		return typeDecimal128
	case bson.TypeBinary:
		switch subtype, _, _ := o.raw.BinaryOK(); subtype {
		case bson.TypeBinaryUUID:
			return typeUUID
		case bson.TypeBinaryUUIDOld:
			return typeOlderUUID
		}
	}
	return typeOther
}

// Equal compares a Decimal128 with any number by value, and other values by their bytes.
func (o opaque) Equal(other ref.Val) ref.Val {
	if o.raw.Type == bson.TypeDecimal128 && isNumber(other) {
		n := numberIn(o)
		return types.Bool(!isNaN(o) && fold.CompareNumbers(n, numberIn(other)) == 0)
	}
	p, ok := other.(opaque)
	return types.Bool(ok && o.raw.Type == p.raw.Type && bytes.Equal(o.raw.Value, p.raw.Value))
}

func (o opaque) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.TypeType:
		return o.Type().(ref.Val)
	case types.StringType:
		if text, ok := o.text(); ok {
			return types.String(text)
		}
	case types.DoubleType:
		if d, ok := o.raw.Decimal128OK(); ok {
			if f, err := strconv.ParseFloat(d.String(), 64); err == nil {
				return types.Double(f)
			}
		}
	case types.IntType:
		if o.raw.Type == bson.TypeDecimal128 {
			return decimalToInt(numberIn(o))
		}
	case o.Type():
		return o
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.Type(), t)
}

func (o opaque) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative(o, t) }

// Value returns the BSON value itself.
func (o opaque) Value() any { return o.raw }

func (o opaque) text() (string, bool) {
	if id, ok := o.raw.ObjectIDOK(); ok {
		return id.Hex(), true
	}
	if d, ok := o.raw.Decimal128OK(); ok {
		return d.String(), true
	}
	if subtype, data, ok := o.raw.BinaryOK(); ok && subtype == bson.TypeBinaryUUID && len(data) == uuidBytes {
		return event.FormatUUID([uuidBytes]byte(data)), true
	}
	return "", false
}

const uuidBytes = 16

// aboutOlderUUIDs is the remedy for older UUIDs where a text is needed.
const aboutOlderUUIDs = "an older UUID (binary of subtype 3) does not say in which order its bytes are: write uuid(value, 'csharpLegacy'), or 'javaLegacy' or 'pythonLegacy', as the program that writes the events does"

// readUUID gives the UUID in a binary of subtype 3, whose order of bytes the second argument
// names. The order stands in the expression and is no setting, so that the definition of a read
// model alone determines its content. A UUID of subtype 4 is itself.
func readUUID(value, representation ref.Val) ref.Val {
	text, isText := representation.(types.String)
	o, isOpaque := value.(opaque)
	if !isText || !isOpaque {
		return noOverload("uuid", value, representation)
	}
	order := event.UUIDRepresentation(text)
	if err := checkOrder(string(text)); err != nil {
		return types.WrapErr(err)
	}
	subtype, data, ok := o.raw.BinaryOK()
	switch {
	case ok && subtype == bson.TypeBinaryUUID:
		return o
	case !ok || subtype != bson.TypeBinaryUUIDOld || len(data) != uuidBytes:
		return noOverload("uuid", value, representation)
	}
	ordered := order.Reorder([uuidBytes]byte(data))
	raw := append(binary.LittleEndian.AppendUint32(nil, uuidBytes), bson.TypeBinaryUUID)
	return opaque{bson.RawValue{Type: bson.TypeBinary, Value: append(raw, ordered[:]...)}}
}

func checkOrder(representation string) error {
	if !event.UUIDRepresentation(representation).Ordered() {
		return fmt.Errorf("%q is no order of the bytes of older UUIDs: use csharpLegacy, javaLegacy or pythonLegacy", representation)
	}
	return nil
}

// opaqueConversions declares uuid(), string() for ObjectIds, UUIDs and decimals, and double() and int()
// for decimals.
func opaqueConversions() []cel.EnvOption {
	from := func(id string, from, to *cel.Type) cel.FunctionOpt {
		return cel.Overload(id, []*cel.Type{from}, to, cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(to) }))
	}
	return []cel.EnvOption{
		cel.Function("uuid",
			cel.Overload("penstock_uuid", []*cel.Type{cel.DynType, cel.StringType}, typeUUID, cel.BinaryBinding(readUUID))),
		cel.Function("string", from("objectid_to_string", typeObjectID, cel.StringType), from("uuid_to_string", typeUUID, cel.StringType),
			from("decimal128_to_string", typeDecimal128, cel.StringType)),
		cel.Function("int", from("decimal128_to_int", typeDecimal128, cel.IntType)),
		cel.Function("double", from("decimal128_to_double", typeDecimal128, cel.DoubleType)),
	}
}
