package filter

import (
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
)

// Correlation matches messages whose properties have the given values. The zero value
// matches all messages.
type Correlation struct {
	System      map[string]string // by the names that filters use, such as "MessageId"
	Application map[string]any
}

// Match reports whether all properties have their values.
func (f *Correlation) Match(v *message.View) bool {
	for name, want := range f.System {
		if got, ok := v.System(name); !ok || got != any(want) {
			return false
		}
	}

	for name, want := range f.Application {
		got, ok := v.Application(name)
		if !ok {
			return false
		}

		if _, _, equal := compare(normal(got), normal(want)); !equal {
			return false
		}
	}

	return true
}

// Boolean matches all messages if true, none if false.
type Boolean bool

// Match returns f.
func (f Boolean) Match(*message.View) bool { return bool(f) }
