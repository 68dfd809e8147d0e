// Package mongox connects to the three stores (event store, state, read models) with the
// read and write concerns that Penstock needs, and classifies MongoDB's errors. Reads go to
// the primary, reads and writes need a majority, and each request has a timeout, whatever the
// options of the connection string say. docs/mongodb.md lists what each option does, which
// options are refused, and which other products are.
package mongox
