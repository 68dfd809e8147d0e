package bsonraw

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Format formats a value as in the server's messages: { a: "x", b: 2.5 }.
func Format(v Value) string {
	var b strings.Builder
	format(&b, v)
	return b.String()
}

// FormatDocument formats a document as in the server's messages.
func FormatDocument(doc []byte) string { return Format(DocumentValue(doc)) }

func format(b *strings.Builder, v Value) {
	switch v.Type {
	case bsoncore.TypeString, bsoncore.TypeSymbol:
		b.WriteString(`"` + string(text(v)) + `"`)
	case bsoncore.TypeInt32, bsoncore.TypeInt64:
		n, _ := Int64(v)
		b.WriteString(strconv.FormatInt(n, 10))
	case bsoncore.TypeDouble:
		f := double(v)
		s := strconv.FormatFloat(f, 'g', -1, 64)
		if f == math.Trunc(f) && !strings.ContainsAny(s, "eIN.") {
			s += ".0"
		}
		b.WriteString(s)
	case bsoncore.TypeEmbeddedDocument:
		formatFields(b, v.Data)
	case bsoncore.TypeArray:
		formatArray(b, v.Data)
	case bsoncore.TypeBoolean:
		b.WriteString(strconv.FormatBool(v.Data[0] != 0))
	case bsoncore.TypeNull:
		b.WriteString("null")
	case 0:
		b.WriteString("MISSING")
	case bsoncore.TypeObjectID:
		b.WriteString("ObjectId('" + hex.EncodeToString(v.Data) + "')")
	case bsoncore.TypeDateTime:
		n, _, _ := bsoncore.ReadDateTime(v.Data)
		b.WriteString("new Date(" + strconv.FormatInt(n, 10) + ")")
	case bsoncore.TypeTimestamp:
		t, i := v.Timestamp()
		fmt.Fprintf(b, "Timestamp(%d, %d)", t, i)
	case bsoncore.TypeBinary:
		subtype, data := v.Binary()
		if subtype == bson.TypeBinaryUUID && len(data) == 16 {
			fmt.Fprintf(b, "UUID(\"%x-%x-%x-%x-%x\")", data[:4], data[4:6], data[6:8], data[8:10], data[10:])
			return
		}
		fmt.Fprintf(b, "BinData(%d, %X)", subtype, data)
	case bsoncore.TypeRegex:
		pattern, options := v.Regex()
		b.WriteString("/" + pattern + "/" + options)
	case bsoncore.TypeDecimal128:
		hi, lo := v.Decimal128()
		b.WriteString(bson.NewDecimal128(hi, lo).String())
	default:
		b.WriteString(TypeName(v.Type))
	}
}

func formatFields(b *strings.Builder, doc []byte) {
	b.WriteString("{")
	sep := " "
	for it := NewIter(doc); it.Next(); sep = ", " {
		b.WriteString(sep)
		b.Write(it.key)
		b.WriteString(": ")
		format(b, it.value)
	}
	if sep == ", " {
		b.WriteString(" ")
	}
	b.WriteString("}")
}

func formatArray(b *strings.Builder, arr []byte) {
	b.WriteString("[")
	sep := " "
	for it := NewIter(arr); it.Next(); sep = ", " {
		b.WriteString(sep)
		format(b, it.value)
	}
	if sep == ", " {
		b.WriteString(" ")
	}
	b.WriteString("]")
}
