//go:build linux

package cluster_test

import (
	"testing"
	"time"
)

// Two releases in one namespace share only a MongoDB and a Service Bus namespace. Both get
// their own events, even while one of them is upgraded.
func TestTwoReleases(t *testing.T) {
	p := newPipeline(t, "two")
	q := p.beside(place{events: "cafe", state: "cafestate", readModels: "cafemodels", topic: "other"})
	first, second := p.release("shop"), q.release("cafe")
	first.upgrade()
	_, took := second.upgrade()
	p.resume(faultRate)
	q.resume(faultRate)
	p.recovered(time.Now())
	q.recovered(time.Now())
	second.upgrade("--set", "publisher.publish.connections=8")
	p.verify()
	q.verify()
	restarts := first.restarts() + second.restarts()
	if restarts > 0 {
		t.Errorf("containers have restarted %d times", restarts)
	}
	suite.table.add(row{what: "a second release beside the first", restarts: restarts, took: took, note: "until helm says ready"})
}
