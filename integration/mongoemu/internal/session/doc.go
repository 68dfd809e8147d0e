// Package session keeps what the server knows of its clients' logical sessions:
// the newest transaction number, the statements that a retried write must not do
// again, and the transaction that is open.
package session
