package health_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/health"
)

func TestValidAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		":8080":          true,
		"127.0.0.1:8080": true,
		"[::1]:8080":     true,
		":65535":         true,
		":0":             true,
		":http":          true,
		":65536":         false,
		":99999":         false,
		":-1":            false,
		":no-such-port":  false,
		":":              false,
		"8080":           false,
		"::1:8080":       false,
		"":               false,
	} {
		if got := health.ValidAddress(address); got != want {
			t.Errorf("%q: got %t", address, got)
		}
	}
}
