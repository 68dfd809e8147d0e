// Package session keeps the state of the clients' logical sessions: the newest
// transaction number, the results of statements that a retried write must not repeat, and
// the open transaction.
package session
