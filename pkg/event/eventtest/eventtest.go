// Package eventtest reads events, for tests.
package eventtest

import "github.com/penstock-cdc/penstock/pkg/event"

// Reader reads events whose fields have the default names.
func Reader() *event.Reader {
	reader, err := event.NewReader(event.DefaultFields())
	if err != nil {
		panic(err)
	}
	return reader
}
