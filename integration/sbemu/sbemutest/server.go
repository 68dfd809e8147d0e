package sbemutest

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// Start runs a namespace until the end of the test.
func Start(tb testing.TB, c sbemu.Config) *sbemu.Server {
	tb.Helper()

	s, err := sbemu.New(c)
	if err != nil {
		tb.Fatal(err)
	}

	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})

	return s
}
