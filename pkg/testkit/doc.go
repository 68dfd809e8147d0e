// Package testkit has what the tests of several packages need: BSON of Go values and of Extended
// JSON, the value of a metric, a loop that ends with its test, virtual time, a reader of events, a collector of traces,
// and a test that no setting of a program shows a secret.
package testkit
