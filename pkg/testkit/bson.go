package testkit

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Raw is the document of a Go value.
func Raw(v any) bson.Raw {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %v: %v", v, err))
	}
	return raw
}

// FromJSON is a document given as Extended JSON.
func FromJSON(json string) bson.Raw {
	var d bson.D
	if err := bson.UnmarshalExtJSON([]byte(json), false, &d); err != nil {
		panic(fmt.Sprintf("%s: %v", json, err))
	}
	return Raw(d)
}

// Value is the BSON value of a Go value.
func Value(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("encode %v: %v", v, err))
	}
	return bson.RawValue{Type: kind, Value: data}
}
