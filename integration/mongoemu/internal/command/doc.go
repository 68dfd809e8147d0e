// Package command answers the commands of clients: it reads a request, finds its
// session and transaction, runs it on the store, and writes the reply with its
// times, errors and labels.
package command
