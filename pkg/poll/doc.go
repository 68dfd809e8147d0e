// Package poll repeats a call until a context ends: [Every] at a constant interval, and
// [Spread] with random variation between processes.
package poll
