package similar_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"event", "events", 1}, {"evnet", "event", 2}, {"kitten", "sitting", 3}, {"größe", "große", 1},
	} {
		if got := similar.Distance(test.a, test.b); got != test.want {
			t.Errorf("from %q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
