package cli

import (
	"errors"
	"fmt"
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
	var problems []error
	if c.Limit < 1 || c.Limit > c.Max {
		problems = append(problems, fmt.Errorf("--limit is %d: use 1 to %d", c.Limit, c.Max))
	}
	if c.OlderThan < 0 {
		problems = append(problems, fmt.Errorf("--older-than is %v: use a positive duration", c.OlderThan))
	}
	if c.Reason != "" && !slices.Contains(c.Reasons, c.Reason) {
		names := make([]string, len(c.Reasons))
		for i, reason := range c.Reasons {
			names[i] = string(reason)
		}
		problems = append(problems, fmt.Errorf("--reason is %q, unknown: use one of %s", c.Reason, strings.Join(names, ", ")))
	}
	return errors.Join(problems...)
}
