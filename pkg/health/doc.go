// Package health answers /livez, /readyz and /metrics on the admin port: whether
// the loops of a process make progress, and whether it is able to do its work.
package health
