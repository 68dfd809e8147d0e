// Package poll has what loops and repeated attempts need: [Every] and [Spread] repeat a call until a
// context ends, [Beside] runs such a loop beside other work, [Backoff] and [After] compute the
// waits between attempts, [Wait] waits, [Pool] reuses goroutines, and [Duration] writes a
// duration.
package poll
