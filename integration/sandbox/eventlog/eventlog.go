package eventlog

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/klauspost/compress/gzip"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

//go:embed projections.yaml.tmpl
var projections string

// maxLine bounds a line of the file, in bytes: it is MongoDB's limit for a document.
const maxLine = 16 << 20

// line is an event as a line of the file.
type line struct {
	AggregateID   bson.RawValue `bson:"aggregateId"`
	AggregateType string        `bson:"aggregateType"`
	EventID       int64         `bson:"eventId"`
	EventType     string        `bson:"eventType"`
	Timestamp     bson.RawValue `bson:"timestamp"`
	Payload       bson.D        `bson:"payload"`
}

// aggregateID returns the id as text; empty if it is absent.
func (l *line) aggregateID() (string, error) {
	switch id := l.AggregateID; id.Type {
	case 0:
		return "", nil
	case bson.TypeString:
		return id.StringValue(), nil
	case bson.TypeObjectID:
		return id.ObjectID().Hex(), nil
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(id.AsInt64(), 10), nil
	default:
		return "", fmt.Errorf("aggregateId is a %s: use a text, an ObjectId or an integer", id.Type)
	}
}

// at returns the time, which is a text or, in a file of mongoexport, a date.
func (l *line) at() (time.Time, error) {
	if l.Timestamp.Type == bson.TypeDateTime {
		return l.Timestamp.Time().UTC(), nil
	}
	text, ok := l.Timestamp.StringValueOK()
	if !ok {
		return time.Time{}, errors.New("timestamp is neither a text in the format of RFC 3339 nor a date")
	}
	at, err := time.Parse(time.RFC3339, text)
	return at.UTC(), err
}

// Open reads a file of events. If its name ends in .gz, it is gunzipped. Each line is a
// JSON object with aggregateId, eventId, eventType, a timestamp (RFC 3339, or a date in
// Extended JSON) and a payload. A file of mongoexport has this format.
// The events of an aggregate must be in the order of eventId. They are stored by time,
// which interleaves the aggregates.
func Open(path string) (*workload.Workload, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}
	defer file.Close()

	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			return nil, fmt.Errorf("unzip the event log %s: %w", path, err)
		}
		defer unzipped.Close()
		in = unzipped
	}
	events, err := read(in)
	if err != nil {
		return nil, fmt.Errorf("read the event log %s: %w", path, err)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("read the event log %s: it has no events", path)
	}
	interleave(events)

	grouped := groupedTypes(events)
	yaml, err := projectionsFor(events, grouped, false)
	if err != nil {
		return nil, err
	}
	changed, err := projectionsFor(events, grouped, true)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	var views []workload.View
	if len(grouped) > 0 {
		views = []workload.View{groupView(grouped)}
	}
	return &workload.Workload{
		Name: name, Events: events, Projections: yaml, Collections: []string{cases},
		Oracle: workload.Oracle{Fold: fold, Views: views},
		Change: &workload.Change{
			Projections: changed, Oracle: workload.Oracle{Fold: foldChanged, Views: views},
			Changed: []workload.Changed{{
				Projection: "cases", Collection: cases, Field: "types",
				Falsify: bson.D{{Key: "$inc", Value: bson.D{{Key: "events", Value: int64(1)}}}},
			}},
		},
	}, nil
}

func read(in io.Reader) ([]workload.Event, error) {
	var events []workload.Event
	last := make(map[string]int64)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l line
		if err := bson.UnmarshalExtJSON(lines.Bytes(), false, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		at, timeErr := l.at()
		id, idErr := l.aggregateID()
		if err := errors.Join(timeErr, idErr); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case id == "" || l.EventType == "":
			return nil, fmt.Errorf("line %d: aggregateId and eventType are required", n)
		case l.EventID != last[id]+1:
			return nil, fmt.Errorf("line %d: event %d of %s follows event %d: number an aggregate's events 1, 2, 3, …",
				n, l.EventID, id, last[id])
		}
		last[id] = l.EventID
		events = append(events, workload.Event{
			AggregateID: id, AggregateType: l.AggregateType, EventID: l.EventID,
			EventType: l.EventType, Timestamp: at, Payload: l.Payload,
		})
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d bytes, more than a MongoDB document may be", maxLine)
	} else if err != nil {
		return nil, err
	}
	return events, nil
}

// interleave sorts the events by time and keeps each aggregate's own order, even if its
// clock went backwards.
func interleave(events []workload.Event) {
	type timed struct {
		at    time.Time
		event workload.Event
	}
	latest := make(map[string]time.Time)
	order := make([]timed, len(events))
	for i, ev := range events {
		at := ev.Timestamp
		if before := latest[ev.AggregateID]; at.Before(before) {
			at = before
		}
		latest[ev.AggregateID] = at
		order[i] = timed{at, ev}
	}
	slices.SortStableFunc(order, func(a, b timed) int { return a.at.Compare(b.at) })
	for i := range order {
		events[i] = order[i].event
	}
}

// projectionsFor returns the projections file for the event types of the events: the first
// version, or the changed one, which also has the set of the types and the last time. If
// there are grouped types, it has the view of their groups.
func projectionsFor(events []workload.Event, grouped []string, changed bool) ([]byte, error) {
	eventTypes := make(map[string]struct{})
	for i := range events {
		eventTypes[events[i].EventType] = struct{}{}
	}
	parsed, err := template.New("projections.yaml").Parse(projections)
	if err != nil {
		return nil, fmt.Errorf("parse the projections' template: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{
		"EventTypes": slices.Sorted(maps.Keys(eventTypes)), "Grouped": grouped, "Changed": changed,
	}); err != nil {
		return nil, fmt.Errorf("write the projections: %w", err)
	}
	return out.Bytes(), nil
}
