package event

import (
	"strings"
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

// lenTraceParent is the length of a traceparent of version 00.
const lenTraceParent = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")

// TraceContext is the W3C trace context in the application properties of a message. Both
// results are empty if there is no valid traceparent.
func TraceContext(properties map[string]any) (parent, state string) {
	if parent, _ = properties[propertyTraceParent].(string); !validTraceParent(parent) {
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
	if !validTraceParent(parent) {
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

// validTraceParent reports whether s is a traceparent: version, trace id, span id and
// flags, in lower-case hexadecimal. A version after 00 may have more fields.
// https://www.w3.org/TR/trace-context/#traceparent-header
func validTraceParent(s string) bool {
	if len(s) < lenTraceParent || len(s) > maxTraceParent {
		return false
	}
	version, trace, span, flags := s[0:2], s[3:35], s[36:52], s[53:55]
	switch {
	case s[2] != '-' || s[35] != '-' || s[52] != '-':
		return false
	case !isHex(version) || !isHex(trace) || !isHex(span) || !isHex(flags):
		return false
	case version == "ff" || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "":
		return false
	case len(s) == lenTraceParent:
		return true
	}
	return version != "00" && s[lenTraceParent] == '-' && utf8.ValidString(s)
}

// isHex reports whether s has only digits and the letters a to f.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
