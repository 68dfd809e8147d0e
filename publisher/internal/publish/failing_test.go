package publish_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// The health of the process names a topic that fails from the first failure until a success
// of the same kind, and forgets it at the end of the term.
func TestFailingTopicIsKnownSinceItsFirstFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := publish.NewAvailability(publish.AvailabilityOptions{})
		failing := func(want string, since time.Time) {
			t.Helper()
			at, err := a.Failing()
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !at.Equal(since)) {
				t.Errorf("since %s: %v, want %q since %s", at, err, want, since)
			}
		}
		failing("", time.Time{})
		begun := time.Now()
		a.ConnectFailed(errors.New("no route"))
		<-time.After(time.Minute)
		a.ConnectFailed(errors.New("refused"))
		failing("no connection to the topic can be opened: refused", begun)
		a.Connected()
		failing("", time.Time{})

		begun = time.Now()
		a.SendFailed(errors.New("timeout"))
		a.Connected()
		failing("the topic accepts no send: timeout", begun)
		a.Accepted()
		failing("", time.Time{})

		a.SendFailed(errors.New("timeout"))
		a.TermEnded()
		failing("", time.Time{})
	})
}
