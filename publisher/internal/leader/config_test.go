package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

func TestNewConfig(t *testing.T) {
	t.Parallel()
	if c := leader.DefaultConfig(); c.PollPeriod != 500*time.Millisecond || c.Margin != 2*time.Second || c.RequestTimeout != 3*time.Second {
		t.Errorf("config is %+v", c)
	}
	for _, d := range [][3]time.Duration{
		{6 * time.Second, 4 * time.Second, time.Second},
		{60 * time.Second, 40 * time.Second, 15 * time.Second},
		{2 * time.Second, time.Second, 500 * time.Millisecond},
	} {
		c := leader.NewConfig(d[0], d[1], d[2], time.Second)
		if c.AbortTimeout() <= 0 || c.Margin <= 0 || c.RequestTimeout >= c.RenewDeadline || c.PollPeriod <= 0 {
			t.Errorf("config of %v is %+v", d, c)
		}
	}
}

func TestNewIdentity(t *testing.T) {
	t.Parallel()
	a, b := leader.NewIdentity("publisher-0"), leader.NewIdentity("publisher-0")
	if a == b || !strings.HasPrefix(a, "publisher-0_") {
		t.Errorf("identities %q and %q, want two of one pod", a, b)
	}
}
