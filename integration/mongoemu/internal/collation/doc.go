// Package collation compares strings by the rules of a language.
package collation
