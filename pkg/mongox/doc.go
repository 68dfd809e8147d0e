// Package mongox connects to the three stores (event store, state, read models) with the
// read and write concerns that Penstock needs, and classifies MongoDB's errors.
package mongox
