// Package config is the publisher's configuration. It declares flags, environment variables
// and their help together, and checks the rules between them.
package config
