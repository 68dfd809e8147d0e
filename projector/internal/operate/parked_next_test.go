package operate

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// A retry of an aggregate that is parked in a generation that is being built fails again,
// because the new definition is the reason.
func TestNextOfAParkedAggregate(t *testing.T) {
	t.Parallel()
	entries := map[string]*catalog.Entry{"orders": {Building: &catalog.Build{Generation: 2}}, "old": {RetiredAt: new(time.Time)}}
	at := time.Unix(1, 0)
	for want, m := range map[string]park.Listed{
		"parked retry":          {Key: park.Key{Projection: "orders", Generation: 1}},
		"roll out a correction": {Key: park.Key{Projection: "orders", Generation: 2}},
		"resumes by itself":     {Key: park.Key{Projection: "orders", Generation: 2}, RetryAt: &at},
		"being resumed":         {Key: park.Key{Projection: "orders", Generation: 1}, RetryAt: &at, Claimed: true},
		"projection is retired": {Key: park.Key{Projection: "old", Generation: 1}, RetryAt: &at},
		"discarded":             {Key: park.Key{Projection: "orders", Generation: 2}, Discarded: &park.Discard{}},
	} {
		if got := next(m, entries); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}
