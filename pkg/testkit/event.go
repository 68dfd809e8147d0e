package testkit

import "github.com/penstock-cdc/penstock/pkg/event"

// EventReader reads events whose fields have the default names.
func EventReader() *event.Reader {
	return event.NewReader(event.DefaultFields())
}
