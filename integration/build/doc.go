// Package build tests the Makefile: what it needs, and what it does without.
package build
