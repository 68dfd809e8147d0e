package verify

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// maxFindings bounds the differences that a report describes.
const maxFindings = 20

// Report is the outcome of a comparison.
type Report struct {
	// Events and Aggregates count the content of the event store.
	Events, Aggregates int
	// Expected counts the aggregates whose read model is compared: a visible document, or
	// none, as the fold says; and the documents of views. Right counts those that equal the
	// fold.
	Expected, Right int
	// Findings describe the first differences.
	Findings []string
	wrong    int
}

// OK reports whether every read model is right and there is at least one.
func (r *Report) OK() bool { return r.Expected > 0 && r.Right == r.Expected && r.wrong == 0 }

// Wrong counts the differences, including documents that should not exist.
func (r *Report) Wrong() int { return r.wrong }

func (r *Report) find(format string, args ...any) {
	r.wrong++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// ReadModels folds the events collection with the workload's independent folds and compares
// every read model in the database with it. until is the last event that counts for an aggregate:
// of a parked aggregate, the last one that was applied before its poison event. Each difference
// is a finding in the report. An error means that the comparison failed.
func ReadModels(
	ctx context.Context, events *mongo.Collection, models *mongo.Database, oracle workload.Oracle, until map[string]int64,
) (*Report, error) {
	report := new(Report)
	expected, err := foldStore(ctx, events, oracle, until, report)
	if err != nil {
		return nil, err
	}
	for _, collection := range sortedKeys(expected) {
		if err := compareCollection(ctx, models.Collection(collection), expected[collection], report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// want is the expected read model.
type want struct {
	document    bson.M // nil: none visible
	lastEventID any    // an int64; nil in a view, whose documents have none
}

func foldStore(
	ctx context.Context, events *mongo.Collection, oracle workload.Oracle, until map[string]int64, report *Report,
) (map[string]map[string]want, error) {
	order := bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}
	cursor, err := events.Find(ctx, bson.D{}, options.Find().SetSort(order).SetBatchSize(5000))
	if err != nil {
		return nil, fmt.Errorf("read the event store: %w", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))

	expected := make(map[string]map[string]want)
	ofViews := make([][][]workload.Event, len(oracle.Views))
	var history []workload.Event
	closeAggregate := func() {
		if len(history) == 0 {
			return
		}
		report.Aggregates++
		id, last := history[0].AggregateID, history[len(history)-1].EventID
		if counts, bounded := until[id]; bounded {
			history = slices.DeleteFunc(history, func(ev workload.Event) bool { return ev.EventID > counts })
			last = counts
		}
		if len(history) > 0 {
			for i, view := range oracle.Views {
				if slices.Contains(view.AggregateTypes, history[0].AggregateType) {
					ofViews[i] = append(ofViews[i], history)
				}
			}
			collection, document := oracle.Fold(history)
			if expected[collection] == nil {
				expected[collection] = make(map[string]want)
			}
			expected[collection][id] = want{document: document, lastEventID: last}
			report.Expected++
		}
		history = nil
	}
	for cursor.Next(ctx) {
		var ev workload.Event
		if err := cursor.Decode(&ev); err != nil {
			return nil, fmt.Errorf("decode an event: %w", err)
		}
		if len(history) > 0 && history[0].AggregateID != ev.AggregateID {
			closeAggregate()
		}
		ev.Timestamp = ev.Timestamp.UTC()
		history = append(history, ev)
		report.Events++
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("read the event store: %w", err)
	}
	closeAggregate()
	for i, view := range oracle.Views {
		expected[view.Collection] = make(map[string]want)
		for key, document := range view.Fold(ofViews[i]) {
			expected[view.Collection][key] = want{document: document}
			report.Expected++
		}
	}
	return expected, nil
}

func compareCollection(ctx context.Context, models *mongo.Collection, expected map[string]want, report *Report) error {
	cursor, err := models.Find(ctx, bson.D{}, options.Find().SetBatchSize(5000))
	if err != nil {
		return fmt.Errorf("read the read models: %w", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))

	seen := make(map[string]struct{}, len(expected))
	for cursor.Next(ctx) {
		var got bson.M
		if err := cursor.Decode(&got); err != nil {
			return fmt.Errorf("decode a read model: %w", err)
		}
		id, _ := got["_id"].(string)
		exp, known := expected[id]
		seen[id] = struct{}{}
		switch {
		case !known:
			report.find("%s %v: is there, and no event speaks of it", models.Name(), got["_id"])
		case exp.document == nil:
			report.find("%s %s: is visible, and its aggregate was deleted", models.Name(), id)
		default:
			if difference := compareDocument(got, exp); difference != "" {
				report.find("%s %s: %s", models.Name(), id, difference)
				continue
			}
			report.Right++
		}
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("read the read models: %w", err)
	}
	for _, id := range sortedKeys(expected) {
		if _, ok := seen[id]; ok {
			continue
		}
		if expected[id].document == nil {
			report.Right++
			continue
		}
		report.find("%s %s: is missing", models.Name(), id)
	}
	return nil
}
