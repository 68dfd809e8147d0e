// Package standin serves a stand-in for a command: how it starts, what it prints, and how
// it ends.
package standin
