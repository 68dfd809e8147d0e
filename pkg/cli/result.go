package cli

import (
	"errors"
	"fmt"
	"io"
)

// Result is the stdout of a command. It keeps the first error, because a command that prints
// line by line does not look at each one. Make it with [NewResult].
type Result struct {
	to  io.Writer
	err error
}

// NewResult makes the stdout of a command from that of the process. A [Program] with it fails
// if a write has failed.
func NewResult(to io.Writer) *Result { return &Result{to: to} }

// Write implements [io.Writer].
func (r *Result) Write(text []byte) (int, error) {
	n, err := r.to.Write(text)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("print the result: %w", err)
	}
	return n, err
}

// lost returns the first error of a write. If there was none, or if err says that the command has
// failed for another reason, it returns err.
func (r *Result) lost(err error) error {
	if r == nil || r.err == nil || err != nil && !errors.Is(err, ErrFindings) {
		return err
	}
	return r.err
}
