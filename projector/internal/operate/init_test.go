package operate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// TestStarterPassesItsOwnTests checks the file that projector init writes: projector check
// accepts it, its tests pass, and they fail with a projection that counts wrong.
func TestStarterPassesItsOwnTests(t *testing.T) {
	t.Parallel()
	var inference authoring.Inference
	for i, payload := range []bson.D{
		{{Key: "customer", Value: "Ada"}, {Key: "total", Value: 10.5}, {Key: "paid", Value: true}, {Key: "at", Value: time.Now()}},
		{{Key: "cents", Value: int64(5)}, {Key: "id", Value: bson.NewObjectID()}, {Key: "customer", Value: nil}}, {},
	} {
		for _, aggregateType := range []string{"Order", "Übung #1"} {
			inference.Add(&event.Event{
				Keys:    event.Keys{AggregateID: "1", AggregateType: aggregateType, EventID: int64(i + 1), EventType: fmt.Sprintf("%s: %d", aggregateType, i)},
				Payload: testkit.Value(payload), Timestamp: time.Now(),
			})
		}
	}
	inference.Add(&event.Event{Keys: event.Keys{AggregateID: "1", AggregateType: "Order", EventID: 4, EventType: "Order | Placed"}, Timestamp: time.Now()})
	if left := inference.LeftOut(); !slices.Equal(left, []string{"Order | Placed"}) {
		t.Errorf("left out are %q", left)
	}
	starter, err := inference.Starter("first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(projections string) {
		for name, text := range map[string]string{"first.yaml": projections, "first_test.yaml": string(starter.Tests)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(string(starter.Projections))
	for _, args := range [][]string{{"check", filepath.Join(dir, "first.yaml")}, {"test", dir}} {
		if stdout, stderr, err := runLine(t, nil, args...); err != nil {
			t.Errorf("projector %s: %v\n%s%s\n%s\n%s", args[0], err, stdout, stderr, starter.Projections, starter.Tests)
		}
	}
	write(strings.Replace(string(starter.Projections), `eventCount: "1"`, `eventCount: "2"`, 1))
	if stdout, _, err := runLine(t, nil, "test", dir); err == nil {
		t.Errorf("the tests pass with a wrong count:\n%s", stdout)
	}
}
