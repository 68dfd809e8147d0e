package term

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnreadableEventsGoToTheQuarantine: one poison aggregate, or many unreadable neighbours in
// the index, stop neither a scan nor the stream.
func TestUnreadableEventsGoToTheQuarantine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		for n := range int64(120) {
			s.store.insert(fmt.Sprintf("a%03d", n), 1, true)
		}
		s.store.insert("healthy", 1, false)
		s.serve(t, time.Minute)
		s.store.fill("poison", 500, true)
		s.store.insert("healthy", 2, false)
		s.serve(t, time.Minute)
		s.published(t)
	})
}
