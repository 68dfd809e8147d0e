package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change cli.Change
		in     io.Reader
		done   bool
		says   string
	}{
		"yes flag":    {cli.Change{Yes: true}, nil, true, ""},
		"no terminal": {cli.Change{}, nil, false, "this would retry 2 aggregates: nothing was changed; repeat it with --yes"},
		"yes":         {cli.Change{}, strings.NewReader("Yes\n"), true, ""},
		"enter":       {cli.Change{}, strings.NewReader("\n"), false, "nothing was changed"},
		"end":         {cli.Change{}, strings.NewReader(""), false, "nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := test.change.Confirm(t.Context(), test.in, &out, "retry 2 aggregates")
			if (err == nil) != test.done || err != nil && (!errors.Is(err, cli.ErrNotConfirmed) || err.Error() != test.says) {
				t.Errorf("error %v", err)
			}
			question := "This will retry 2 aggregates. Continue? [y/N] "
			switch {
			case test.in == nil:
				question = ""
			case name == "end":
				question += "\n" // what follows begins on a line of its own
			}
			if out.String() != question {
				t.Errorf("asked %q", out.String())
			}
		})
	}
}

func TestConfirmEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (cli.Change{}).Confirm(ctx, r, io.Discard, "wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestPersonNamesTheHost(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	if got := (cli.Change{Who: "ada"}).Person(); got != "ada@"+host {
		t.Errorf("person %q", got)
	}
	if got := (cli.Change{}).Person(); !strings.HasSuffix(got, "@"+host) || strings.HasPrefix(got, "@") {
		t.Errorf("person %q", got)
	}
}

func TestPipeAndNullDeviceAreNoTerminals(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if cli.Terminal(r) != nil {
		t.Error("a pipe counts as a terminal")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if cli.Terminal(null) != nil {
		t.Error("the null device counts as a terminal")
	}
}
