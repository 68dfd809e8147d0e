// Package mongotest runs the MongoDB stand-in of module integration as a process, for
// tests of packages whose correctness lies in what the server does: conditional updates,
// the server's clock, indexes. The services do not import the stand-ins, and neither do
// their tests; this package builds the program and connects to it.
package mongotest
