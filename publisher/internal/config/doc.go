// Package config is the publisher's configuration: flags, environment variables
// and their help in one declaration, and the rules between them.
package config
