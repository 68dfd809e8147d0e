package poll_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

func TestTextHasAtMostTwoUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                               "0s",
		400 * time.Microsecond:          "0s",
		850 * time.Millisecond:          "850ms",
		999600 * time.Microsecond:       "1s",
		12345 * time.Millisecond:        "12s",
		59700 * time.Millisecond:        "1m",
		time.Minute:                     "1m",
		125 * time.Second:               "2m5s",
		time.Hour - time.Second:         "59m59s",
		time.Hour:                       "1h",
		90*time.Minute + 20*time.Second: "1h30m",
		26 * time.Hour:                  "26h",
		48 * time.Hour:                  "2d",
		76*time.Hour + 20*time.Minute:   "3d4h",
		-3 * time.Second:                "-3s",
	} {
		if got := poll.Duration(d); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}
