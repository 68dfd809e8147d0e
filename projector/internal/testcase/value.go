package testcase

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// maxDepth bounds the nesting of a value.
const maxDepth = 64

// value reads a value of one of YAML's types, or of another BSON type as Extended JSON,
// such as {$oid: …}, {$numberDecimal: …} or {$date: …}.
func (r *caseReader) value(node *yaml.Node) bson.RawValue {
	v := r.plain(node, 0)
	if _, _, err := bson.MarshalValue(v); v != nil && err != nil {
		r.problem(node, r.name, "the value cannot be stored: %v", err)
		return bson.RawValue{Type: bson.TypeNull}
	}
	return valueOf(v)
}

func (r *caseReader) plain(node *yaml.Node, depth int) any {
	node = yamlplace.Resolve(node)
	if depth > maxDepth {
		r.problem(node, r.name, "the value nests deeper than %d levels", maxDepth)
		return nil
	}
	switch node.Kind {
	case yaml.SequenceNode:
		array := make(bson.A, len(node.Content))
		for i, n := range node.Content {
			array[i] = r.plain(n, depth+1)
		}
		return array
	case yaml.MappingNode:
		if len(node.Content) > 0 && strings.HasPrefix(node.Content[0].Value, "$") {
			return r.extended(node)
		}
		d := bson.D{}
		entries, _ := r.entries(node, r.name)
		for _, e := range entries {
			d = append(d, bson.E{Key: e.Key, Value: r.plain(e.Value, depth+1)})
		}
		return d
	}
	return r.scalar(node)
}

func (r *caseReader) scalar(node *yaml.Node) any {
	switch node.Tag {
	case "!!null":
		return nil
	case "!!timestamp":
		var at time.Time
		if err := node.Decode(&at); err != nil {
			r.problem(node, r.name, "read a time: %v", err)
		}
		return at.UTC()
	case "!!bool":
		return node.Value == "true" || node.Value == "True" || node.Value == "TRUE"
	case "!!int", "!!float":
		var n int64
		var f float64
		if node.Tag == "!!int" && node.Decode(&n) == nil {
			return n
		}
		if strings.Trim(node.Value, "+-0123456789") == "" {
			// The YAML parser reads an integer that is too large as a double.
			r.problem(node, r.name, "%s is not a 64-bit integer: write {$numberDecimal: \"%s\"} for a Decimal128", node.Value, node.Value)
		} else if err := node.Decode(&f); err != nil {
			r.problem(node, r.name, "read a number: %v", err)
		}
		return f
	}
	return node.Value
}

// extended reads a value in Extended JSON.
func (r *caseReader) extended(node *yaml.Node) any {
	var plain map[string]any
	if err := node.Decode(&plain); err != nil {
		r.problem(node, r.name, "read Extended JSON: %v", err)
		return nil
	}
	if at, ok := plain["$date"].(time.Time); ok {
		return at.UTC()
	}
	text, err := json.Marshal(map[string]any{"v": plain})
	if err == nil {
		var d bson.D
		if err = bson.UnmarshalExtJSON(text, false, &d); err == nil {
			return d[0].Value
		}
	}
	remedy := ""
	if len(node.Content) == 2 && node.Content[1].Kind == yaml.ScalarNode && node.Content[1].Tag != "!!str" {
		remedy = fmt.Sprintf(" (the value needs quotes: {%s: \"%s\"})", node.Content[0].Value, node.Content[1].Value)
	}
	r.problem(node, r.name, "read Extended JSON: %v%s", err, remedy)
	return nil
}

// valueOf encodes a value that consists of BSON types.
func valueOf(v any) bson.RawValue {
	if v == nil {
		return bson.RawValue{Type: bson.TypeNull}
	}
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("encode a value of a test file: %v", err))
	}
	return bson.RawValue{Type: kind, Value: data}
}

// Document returns the event as a document of the event store.
func (e *Event) Document() bson.Raw {
	d := bson.D{{Key: "aggregateId", Value: e.rawAggregateID}}
	if e.AggregateType != "" {
		d = append(d, bson.E{Key: "aggregateType", Value: e.AggregateType})
	}
	d = append(d, bson.E{Key: "eventId", Value: e.EventID}, bson.E{Key: "eventType", Value: e.EventType}, bson.E{Key: "timestamp", Value: e.timestamp})
	if e.payload.Type != 0 {
		d = append(d, bson.E{Key: "payload", Value: e.payload})
	}
	if e.metadata.Type != 0 {
		d = append(d, bson.E{Key: "metadata", Value: e.metadata})
	}
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("encode event %s/%s: %v", e.AggregateID, strconv.FormatInt(e.EventID, 10), err))
	}
	return raw
}
