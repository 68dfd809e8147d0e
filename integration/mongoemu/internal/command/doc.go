// Package command executes the commands of clients. It parses a request, finds its
// session and transaction, runs the command on the store, and writes the reply with its
// cluster times, errors and error labels.
package command
