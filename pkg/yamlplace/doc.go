// Package yamlplace finds the line of a mistake in a YAML file, and says what to do about it.
package yamlplace
