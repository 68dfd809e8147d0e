// Package collation compares strings by the rules of a language, as a collation
// orders it.
package collation
