package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A publisher is killed during its scan, and then its oplog is lost. Its successor
// continues the scan at its position, and also finds the events that were stored before
// that position meanwhile.
func TestScanContinuesAfterTheOplogIsLost(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own: the broker must be slow, and the oplog is lost when the test says so")
	t.Parallel()
	servers := startWithPolicies(t)
	r := newRelease(t, servers, "events", shop.New(6000, 61), "PENSTOCK_MAX_INFLIGHT_EVENTS=64", "PENSTOCK_CHECKPOINT_INTERVAL=50ms")
	createIndex(t, r.events)
	r.store(4000)
	// The scan takes at least ten seconds, so the kill comes before its end.
	servers.Broker.SetLatency(100*time.Millisecond, 100*time.Millisecond)
	publisher := r.publisher()
	checkpoints := r.events.Database().Client().Database(harness.StateDatabase).Collection("checkpoints")
	var before bson.Raw
	r.until("a scan that has come some way", func() bool {
		before, _ = checkpoints.FindOne(t.Context(), bson.D{}).Raw()
		_, err := before.LookupErr("recovery", "aggregateId")
		return err == nil
	})
	publisher.Kill()
	if before, _ = checkpoints.FindOne(t.Context(), bson.D{}).Raw(); before.Lookup("recovery").Type == 0 {
		t.Fatalf("the scan ended before its publisher was killed: %s", before)
	}
	r.store(6000)
	servers.LoseHistory()
	servers.Broker.SetLatency(0, 0)

	publisher = r.publisher()
	r.projector()
	r.await()
	log, err := os.ReadFile(publisher.Log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), `"losses":1,"time"`) || !strings.Contains(string(log), "the scan continues and gets one lap longer") {
		t.Errorf("the log says nothing of a loss:\n%s", tail(publisher.Log))
	}
	r.until("the token of a stream", func() bool {
		after, err := checkpoints.FindOne(t.Context(), bson.D{}).Raw()
		return err == nil && after.Lookup("token").Type != 0 && after.Lookup("recovery").Type == 0
	})
}
