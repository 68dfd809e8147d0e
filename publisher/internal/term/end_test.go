package term

import (
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/health"
)

// TestEndOfATermUsesTheRemainingTime stops terms whose last save is slow, or whose
// connections do not close by themselves.
func TestEndOfATermUsesTheRemainingTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		save    time.Duration
		holds   bool
		lost    time.Duration // from the stop to the loss of the lease; 0: not lost, negative: no stop
		within  time.Duration
		isSaved bool
	}{
		"a stop has time for a slow save":                   {save: 3 * time.Second, within: 4 * time.Second, isSaved: true},
		"a stop has time for connections and a slow save":   {save: 3 * time.Second, holds: true, within: 9 * time.Second, isSaved: true},
		"a stop does not wait for a save that hangs":        {save: time.Hour, holds: true, within: 11 * time.Second},
		"a lost lease has time for a save":                  {save: 1500 * time.Millisecond, lost: -1, within: abortTime, isSaved: true},
		"a lost lease has time for connections and a save":  {save: time.Second, holds: true, lost: -1, within: abortTime, isSaved: true},
		"a lost lease ends in time if everything hangs":     {save: time.Hour, holds: true, lost: -1, within: abortTime},
		"a lease that is lost during a stop shortens it":    {save: time.Hour, holds: true, lost: time.Second, within: time.Second + abortTime},
		"a lease that is lost during the last save as well": {save: time.Hour, lost: 2 * time.Second, within: 2*time.Second + abortTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newConfigured(t, health.New())
				s.runner.saving.Interval = time.Hour
				term := s.lead(t)
				pass(time.Second)
				s.store.fill("a", 20, false)
				pass(5 * time.Second)
				s.checkpoint.slow(test.save)
				s.topic.mu.Lock()
				s.topic.holds = test.holds
				s.topic.mu.Unlock()
				how := term.stop
				switch {
				case test.lost < 0:
					how = term.abort
				case test.lost > 0:
					time.AfterFunc(test.lost, term.abort)
				}
				began := time.Now()
				if err := term.end(how); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took >= test.within {
					t.Errorf("ended after %v, want less than %v", took, test.within)
				}
				token, _ := s.checkpoint.field("token").(bson.M)
				if data, _ := token["_data"].(string); (len(data) >= 8 && data[:8] == "00000014") != test.isSaved {
					t.Errorf("the checkpoint's token is %q; the 20th event's saved: want %v", data, test.isSaved)
				}
			})
		})
	}
}
