// Package poll repeats a call until a context ends: [Every] at a constant interval, and
// [Spread] with random variation between processes. [Beside] runs such a loop beside other work.
package poll
