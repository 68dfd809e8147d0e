// Package duration writes durations for people, in one form for commands, pages, health and
// errors. Log fields keep the form of [time.Duration].
package duration
