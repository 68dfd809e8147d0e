// Package contract tests the packages of pkg that use MongoDB against several servers:
// the stand-in as a replica set, the stand-in as a mongos, and a real server if
// PENSTOCK_TEST_MONGODB_URI names one. It has tests only.
package contract
