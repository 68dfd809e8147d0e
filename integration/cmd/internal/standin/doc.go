// Package standin runs a stand-in for a command: it starts the stand-in, prints its
// addresses, and closes it.
package standin
