// Command writer is an example of a service that writes events in the form that Penstock
// reads. It places an order, and adds an item to it with each further run:
//
//	. bin/demo/env
//	go run ./integration/examples/writer order-4711
//
// store.go is the part to copy into a service: a unique index on aggregate and event id,
// and an append that fails if another writer was faster.
package main
