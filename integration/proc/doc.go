// Package proc runs programs as child processes that can be signalled, killed and awaited,
// that write to a log of their own, and that end with their parent.
package proc
