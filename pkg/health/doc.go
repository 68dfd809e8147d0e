// Package health serves /livez, /readyz and /metrics on the admin port. The probes report
// whether the loops of a process make progress, and whether the process can do its work.
package health
