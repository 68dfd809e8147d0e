package app

import (
	"io"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestNoVariableShowsASecret(t *testing.T) {
	t.Parallel()
	testkit.NoVariableShowsASecret(t, nil, func(args []string, lookup func(string) (string, bool), out io.Writer) ([]string, error) {
		program, err := Parse(args, lookup, out, out, nil)
		return program.Variables, err
	})
}
