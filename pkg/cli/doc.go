// Package cli is what the services' main functions share: it reads the configuration
// from arguments and environment, tells everything that is wrong with it at once,
// and runs the service until a signal ends it.
package cli
