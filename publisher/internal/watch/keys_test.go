package watch_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// TestPrefetchBoundsDocumentsReadByTheirKeys: a change event with only its key is small,
// but the document that is read for it can be large.
func TestPrefetchBoundsDocumentsReadByTheirKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events, size, limit = 128, 1 << 18, 1 << 20
		store := newFakeStore(0)
		store.perNext = 64 // as many as a reply of keys has
		for n := range events {
			store.append("insert", bson.M{"fullDocument": bson.M{"eventId": n + 1, "payload": strings.Repeat("x", size)}})
		}
		store.tooBig[0] = true
		r := &recorder{block: make(chan struct{})}
		run := start(t, store, atStart, watch.Options{PrefetchBytes: limit}, r)
		testkit.Pass(time.Minute)
		// The documents that fit, and the document that waits for memory.
		if bound := limit/size + 1; store.fetched() > bound {
			t.Errorf("%d documents of 256 KiB were read ahead, want at most %d with a bound of 1 MiB", store.fetched(), bound)
		}
		close(r.block)
		testkit.Pass(time.Minute)
		if got := run.seen(); !slices.Equal(got, numbers(events)) {
			t.Errorf("handled %v", got)
		}
		run.end(t)
	})
}
