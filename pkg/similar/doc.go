// Package similar compares names, to suggest the right name for a misspelt one.
package similar
