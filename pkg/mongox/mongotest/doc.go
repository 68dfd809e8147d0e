// Package mongotest runs the MongoDB stand-in of module integration as a process. It is for
// tests of packages whose correctness depends on the server: conditional updates, duplicate
// keys, the server's clock, indexes. Neither the services nor their tests import the
// stand-ins, so this package builds the program and connects to it.
//
// A [Collection] serves tests in virtual time (testing/synctest) as well, and fails the
// requests that a test selects.
//
// [Replies] are no stand-in: they answer the real driver with replies that a test provides, and
// show which commands it sends and how it handles an answer.
package mongotest
