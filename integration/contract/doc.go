// Package contract holds packages of pkg that speak to MongoDB against a server: the
// stand-in, as a replica set and as a mongos, and a real one if
// PENSTOCK_TEST_MONGODB_URI names it. It has tests only.
package contract
