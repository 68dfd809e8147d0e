//go:build linux

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// earlierChart is the chart of the version before each revision of the projector carried
// its own projections. The checkpoint of its publisher has the name events.
const earlierChart = "testdata/penstock-earlier.tgz"

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

// A release of an earlier chart, with data, is upgraded under load. The publisher continues
// at its checkpoint.
func TestUpgradeFromEarlierChart(t *testing.T) {
	p := newPipeline(t, "earlier")
	r := p.release("shop")
	r.chart = earlierChart
	r.upgrade()
	p.resume(faultRate)
	await(t, "data of the earlier chart", func() (bool, string) {
		n, err := p.readModels().Collection("orderReadModels").CountDocuments(t.Context(), bson.D{})
		return err == nil && n > 50, fmt.Sprintf("%d orders (%v)", n, err)
	})
	p.verify()
	p.resume(faultRate)
	r.chart = chart
	_, took := r.upgrade()
	p.recovered(time.Now())
	p.verify()
	cursor, err := p.mongo.Database(p.place.state).Collection("checkpoints").Find(t.Context(), bson.D{})
	must(t, err)
	var checkpoints []bson.M
	must(t, cursor.All(t.Context(), &checkpoints))
	if len(checkpoints) != 1 || checkpoints[0]["_id"] != "events" {
		t.Errorf("there are the checkpoints %v, not only that of the earlier chart", checkpoints)
	}
	suite.table.add(row{what: "upgrade from an earlier chart, with data", restarts: r.restarts(), took: took, note: "until helm says ready, under load; the checkpoint goes on"})
}
