package cli

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Choice checks the flags by which a command chooses records. Zero fields other than Limit
// are not checked.
type Choice[R ~string] struct {
	// Limit is the value of --limit, and Max its upper bound; the lower one is 1.
	Limit, Max int
	// OlderThan is the value of --older-than.
	OlderThan time.Duration
	// Reason is the value of --reason, and Reasons the values that it can have.
	Reason  R
	Reasons []R
}

// Validate returns all problems with their remedies.
func (c Choice[R]) Validate() error {
	var p Problems
	p.Require(c.Limit >= 1 && c.Limit <= c.Max, "--limit is %d: use 1 to %d", c.Limit, c.Max)
	p.Require(c.OlderThan >= 0, "--older-than is %v: use a positive duration", c.OlderThan)
	p.Require(c.Reason == "" || slices.Contains(c.Reasons, c.Reason), "--reason is %q, unknown: use one of %s", c.Reason, Words(c.Reasons))
	return errors.Join(p...)
}

// Words lists words: a, b, c.
func Words[W ~string](words []W) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
