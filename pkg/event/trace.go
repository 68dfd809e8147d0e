package event

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Bounds of a trace context. The W3C asks for at least 512 characters of a tracestate.
// A value that exceeds its bound is left out, because a trace is not worth refusing an
// event.
const (
	maxTraceParent = 256
	maxTraceState  = 4 << 10
)

// TraceContext is the W3C trace context in the application properties of a message. Both
// results are empty if there is no traceparent of bounded length.
func TraceContext(properties map[string]any) (parent, state string) {
	if parent, _ = properties[propertyTraceParent].(string); !fitsTraceParent(parent) {
		return "", ""
	}
	state, _ = properties[propertyTraceState].(string)
	return parent, traceState(state)
}

// traceContext reads the W3C trace context out of an event's metadata.
func traceContext(metadata bson.RawValue) (parent, state string) {
	if metadata.Type != bson.TypeEmbeddedDocument {
		return "", ""
	}
	rest, err := elements(metadata.Value)
	for err == nil && len(rest) > 0 {
		var name []byte
		var v bson.RawValue
		name, v, rest, err = nextElement(rest)
		if err != nil || v.Type != bson.TypeString {
			continue
		}
		switch string(name) {
		case propertyTraceParent:
			if b := stringBytes(v); len(b) <= maxTraceParent {
				parent = string(b)
			}
		case propertyTraceState:
			if b := stringBytes(v); len(b) <= maxTraceState {
				state = string(b)
			}
		}
	}
	if !fitsTraceParent(parent) {
		return "", ""
	}
	return parent, traceState(state)
}

func traceState(s string) string {
	if len(s) > maxTraceState || !utf8.ValidString(s) {
		return ""
	}
	return s
}

// fitsTraceParent reports whether s may be the value of a property. The extractor of
// OpenTelemetry checks the grammar.
func fitsTraceParent(s string) bool {
	return s != "" && len(s) <= maxTraceParent && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
