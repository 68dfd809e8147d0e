package app

import (
	"io"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli/clitest"
)

func TestNoVariableShowsASecret(t *testing.T) {
	t.Parallel()
	clitest.NoVariableShowsASecret(t, nil, func(args []string, lookup func(string) (string, bool), out io.Writer) ([]string, error) {
		l, err := parseLine(args, lookup, out, out)
		return l.variables, err
	})
}
