// Package mongotest runs the MongoDB stand-in of module integration as a process. It is for
// tests of packages whose correctness depends on the server: conditional updates, duplicate
// keys, the server's clock, indexes. Neither the services nor their tests import the
// stand-ins, so this package builds the program and connects to it.
//
// A [Collection] serves tests in virtual time (testing/synctest) as well, and fails the
// requests that a test selects.
package mongotest
