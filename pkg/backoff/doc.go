// Package backoff computes the waits between the attempts of an operation that may succeed
// later.
package backoff
