// Package poll repeats a call until a context ends: [Every] at a steady pace, and
// [Spread] at a pace that differs between processes.
package poll
