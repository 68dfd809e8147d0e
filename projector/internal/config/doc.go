// Package config declares the projector's configuration: flags, environment variables and
// their help in one place, and the rules between settings. It also opens the MongoDB databases
// that the configuration names.
package config
