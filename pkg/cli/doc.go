// Package cli reads a service's configuration from its arguments and environment,
// and tells everything that is wrong with it at once.
package cli
