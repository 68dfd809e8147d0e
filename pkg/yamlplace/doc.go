// Package yamlplace reads YAML files. It finds the line of a mistake in a file, and says what
// to do about it.
package yamlplace
