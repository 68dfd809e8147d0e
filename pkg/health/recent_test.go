package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
)

func TestRecentForgetsAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := health.NewRecent(time.Second)
		has := func(want health.Durations) {
			t.Helper()
			if got := r.Durations(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		has(health.Durations{})
		r.Add(time.Second)
		r.Add(3 * time.Second)
		has(health.Durations{Count: 2, Above: 1, Longest: 3 * time.Second})
		<-time.After(35 * time.Second)
		r.Add(2 * time.Second)
		has(health.Durations{Count: 3, Above: 2, Longest: 3 * time.Second})
		<-time.After(30 * time.Second)
		has(health.Durations{Count: 1, Above: 1, Longest: 2 * time.Second})
		<-time.After(time.Hour)
		has(health.Durations{})
	})
}
