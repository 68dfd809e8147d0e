package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	if err := leader.DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	for name, tc := range map[string]struct {
		change func(c *leader.Config)
		want   string
	}{
		"lease without a duration":        {func(c *leader.Config) { c.LeaseDuration = 0 }, "lease duration 0s"},
		"lease of a fraction of a second": {func(c *leader.Config) { c.LeaseDuration += time.Millisecond }, "whole seconds"},
		"renewal as long as lease":        {func(c *leader.Config) { c.RenewDeadline = c.LeaseDuration }, "must be less than the lease duration"},
		"no time to stop":                 {func(c *leader.Config) { c.Margin = 5 * time.Second }, "must be less than the lease duration"},
		"negative margin":                 {func(c *leader.Config) { c.Margin = -1 }, "must not be negative"},
		"too few tries":                   {func(c *leader.Config) { c.RetryPeriod = 9 * time.Second }, "times the retry period"},
		"no retry period":                 {func(c *leader.Config) { c.RetryPeriod = 0 }, "retry period 0s"},
		"no time to drain":                {func(c *leader.Config) { c.StopTimeout = 0 }, "stop timeout 0s"},
		"request as long as renewal":      {func(c *leader.Config) { c.RequestTimeout = c.RenewDeadline }, "request timeout 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := leader.DefaultConfig()
			tc.change(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Validate returned %v, want it to say %q", err, tc.want)
			}
		})
	}
	if err := (leader.Config{}).Validate(); strings.Count(err.Error(), "\n") < 4 {
		t.Errorf("zero value: %v, want every problem at once", err)
	}
}

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
		if err := leader.NewConfig(d[0], d[1], d[2], time.Second).Validate(); err != nil {
			t.Errorf("%v: %v", d, err)
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
