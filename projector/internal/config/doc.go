// Package config is the projector's configuration: flags, environment variables
// and their help in one declaration, and the rules between them.
package config
