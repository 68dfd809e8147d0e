package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// traced is a scenario whose services trace every event without a sampling decision.
type traced struct {
	*scenario
	collector *testkit.Collector
	// registered are the events that register has stored. They come in addition to the
	// workload's.
	registered []workload.Event
}

func newTraced(t *testing.T, seed uint64, receiver string) *traced {
	t.Helper()
	s := &traced{
		scenario:  newScenarioOn(t, shop.New(events/8, seed), harness.TopicOptions{}, "PENSTOCK_RECEIVER="+receiver),
		collector: testkit.NewCollector(t),
	}
	s.SetEnv("OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT="+s.collector.URL, "OTEL_TRACES_SAMPLER=parentbased_always_on", "OTEL_BSP_SCHEDULE_DELAY=100")
	return s
}

// writerOf returns the trace and the traceparent of the span that writes an event.
func writerOf(n int, flags string) (trace, parent string) {
	trace = fmt.Sprintf("%032x", n)
	return trace, fmt.Sprintf("00-%s-%016x-%s", trace, n, flags)
}

// register stores the first event of a user, with that traceparent if it is not empty.
func (s *traced) register(user, parent string) {
	s.t.Helper()
	ev := bson.D{
		{Key: "aggregateId", Value: user}, {Key: "aggregateType", Value: "User"}, {Key: "eventId", Value: int64(1)},
		{Key: "eventType", Value: "UserRegisteredEvent"}, {Key: "timestamp", Value: time.Now()},
		{Key: "payload", Value: bson.D{{Key: "name", Value: "n"}, {Key: "email", Value: "e"}}},
	}
	if parent != "" {
		ev = append(ev, bson.E{Key: "metadata", Value: bson.D{{Key: "traceparent", Value: parent}}})
	}
	if _, err := s.events.InsertOne(s.t.Context(), ev); err != nil {
		s.t.Fatal(err)
	}
	s.registered = append(s.registered, workload.Event{AggregateID: user, AggregateType: "User", EventID: 1, EventType: "UserRegisteredEvent"})
}

// traceOf waits until an event has a complete trace. It returns the spans.
func (s *traced) traceOf(aggregate string) []testkit.Span {
	s.t.Helper()
	var spans []testkit.Span
	s.await("the trace of "+aggregate, func() bool {
		for _, p := range testkit.Named(s.collector.Spans(), "process") {
			if p.Attributes["penstock.aggregate.id"] == aggregate && p.Attributes["penstock.event.id"] == int64(1) {
				spans = s.collector.Trace(p.TraceID)
				return len(testkit.Named(spans, "publish")) > 0 && done(spans)
			}
		}
		return false
	})
	return spans
}

// done reports whether a process span of a trace has finished its event.
func done(spans []testkit.Span) bool {
	return slices.ContainsFunc(testkit.Named(spans, "process"), func(p testkit.Span) bool { return p.Attributes["penstock.outcome"] == "done" })
}

// checkTrace waits for the trace of an event and checks it.
func (s *traced) checkTrace(aggregate, parent string) []testkit.Span {
	s.t.Helper()
	spans := s.traceOf(aggregate)
	s.checkChain(aggregate, parent, spans)
	return spans
}

// checkChain checks the spans of an event. parent is the publish span's parent; empty for
// none.
func (s *traced) checkChain(aggregate, parent string, spans []testkit.Span) {
	s.t.Helper()
	publish := testkit.Named(spans, "publish")
	if len(publish) != 1 || publish[0].ParentID != parent || publish[0].Service != "penstock-publisher" {
		s.t.Errorf("%s: published by %+v, want one span with the parent %q", aggregate, publish, parent)
		return
	}
	for _, p := range testkit.Named(spans, "process") {
		if p.ParentID != publish[0].SpanID || p.Service != "penstock-projector" {
			s.t.Errorf("%s: processed by %+v, want the parent %s", aggregate, p, publish[0].SpanID)
		}
	}
}

// An event has one trace from its insert to its read model, with either receiver. A
// rebuild makes no spans.
func TestEventsAreTraced(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	for n, receiver := range []string{"amqp", "sdk"} {
		t.Run(receiver, func(t *testing.T) {
			inParallel(t)
			s := newTraced(t, 61+uint64(n), receiver)
			s.start(1, 1)
			trace, parent := writerOf(0xa1, "01")
			s.register("with-traceparent", parent)
			s.register("without-traceparent", "")
			s.register("with-garbage", "00-this is not a traceparent at all, and still has its length")
			decided, unsampled := writerOf(0xb2, "00")
			s.register("not-sampled", unsampled)

			spans := s.checkTrace("with-traceparent", fmt.Sprintf("%016x", 0xa1))
			if spans[0].TraceID != trace {
				t.Errorf("the trace is %s, not the writer's", spans[0].TraceID)
			}
			s.checkTrace("without-traceparent", "")
			s.checkTrace("with-garbage", "")
			s.load(0)
			s.workload.Events = append(slices.Clone(s.workload.Events), s.registered...)
			s.invariants()
			if spans := s.collector.Trace(decided); len(spans) != 0 {
				t.Errorf("the writer does not sample, and there are %+v", spans)
			}
			for _, aggregate := range s.aggregatesOf(20) {
				s.checkTrace(aggregate, "")
			}
			s.checkExemplars()
			s.checkRebuild()
		})
	}
}

// aggregatesOf returns the first n aggregates of the workload.
func (s *traced) aggregatesOf(n int) []string {
	var aggregates []string
	for i := range s.workload.Events {
		if ev := &s.workload.Events[i]; ev.EventID == 1 && len(aggregates) < n {
			aggregates = append(aggregates, ev.AggregateID)
		}
	}
	return aggregates
}

// openMetrics scrapes a process like a Prometheus that wants exemplars.
func openMetrics(t *testing.T, p *harness.Process) string {
	t.Helper()
	_, text, err := p.Get(t.Context(), "/metrics", http.Header{"Accept": {"application/openmetrics-text; version=1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkExemplars checks that histograms name traces that the collector has.
func (s *traced) checkExemplars() {
	s.t.Helper()
	exported := func(a, b string) bool {
		return slices.ContainsFunc(s.collector.Spans(), func(span testkit.Span) bool {
			return span.TraceID == a && span.SpanID == b || span.TraceID == b && span.SpanID == a
		})
	}
	for prefix, histograms := range map[string][]string{
		"publisher": {"penstock_publisher_send_duration_seconds"},
		"projector": {"penstock_projector_event_age_seconds"},
	} {
		for _, process := range s.Running() {
			if !strings.HasPrefix(process.Name, prefix) {
				continue
			}
			text := openMetrics(s.t, process)
			for _, histogram := range histograms {
				exemplar := regexp.MustCompile(`(?m)^` + histogram + `_bucket\{.*# \{(.*)\}`).FindStringSubmatch(text)
				if exemplar == nil {
					s.t.Errorf("%s has no exemplar", histogram)
					continue
				}
				ids := regexp.MustCompile(`"([0-9a-f]+)"`).FindAllStringSubmatch(exemplar[1], -1)
				if len(ids) != 2 {
					s.t.Errorf("%s has the exemplar %s", histogram, exemplar[1])
					continue
				}
				s.await(fmt.Sprintf("the span of the exemplar %s of %s", exemplar[1], histogram), func() bool {
					return exported(ids[0][1], ids[1][1])
				})
			}
		}
	}
}

// checkRebuild builds a changed projection from the event store, and checks that this makes
// no span.
func (s *traced) checkRebuild() {
	s.t.Helper()
	count := func() map[string]int {
		n := make(map[string]int)
		for _, span := range s.collector.Spans() {
			name, _, _ := strings.Cut(span.Name, " ")
			n[name]++
		}
		return n
	}
	s.await("the spans of all events exported", func() bool {
		n := count()
		return n["publish"] >= len(s.workload.Events)-1 && n["process"] >= n["publish"] // one is not sampled
	})
	before := count()
	change := s.workload.Change
	if err := s.SetProjections(change.Projections); err != nil {
		s.t.Fatal(err)
	}
	s.stopped(s.process("projector-0"))
	s.startProjector(0)
	s.awaitLive(map[string]int64{change.Changed[0].Projection: 2})
	s.workload.Oracle = change.Oracle
	s.awaitReadModels()
	for _, process := range s.Running() {
		s.stopped(process) // a stopping process exports its remaining spans
	}
	if after := count(); !maps.Equal(before, after) {
		s.t.Errorf("a rebuild made spans: there were %v, and are %v", before, after)
	}
}

// A message that is delivered again is processed in the same trace, with a span for each
// delivery.
func TestRedeliveryStaysInTheTrace(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	for n, receiver := range []string{"amqp", "sdk"} {
		t.Run(receiver, func(t *testing.T) {
			inParallel(t)
			s := newTraced(t, 63+uint64(n), receiver)
			servers := s.standIns("hold writes, and lose session locks")
			s.start(1, 1)
			servers.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, Collection: "userReadModels", AppName: harness.ProjectorApp, Times: 1, Hold: true})
			trace, parent := writerOf(0xc3, "01")
			s.register("redelivered", parent)
			s.await("the write to be held", func() bool { return servers.Mongo.PendingFaults() == 0 })
			s.await("a lock to lose", func() bool {
				lost, err := servers.LoseSessionLocks()
				return err == nil && lost > 0
			})
			servers.Mongo.ClearFaults()
			var again []testkit.Span
			s.await("a second delivery", func() bool {
				again = slices.DeleteFunc(testkit.Named(s.collector.Trace(trace), "process"), func(p testkit.Span) bool {
					return p.Attributes["messaging.servicebus.message.delivery_count"] == int64(1)
				})
				return len(again) > 0 && done(again)
			})
			s.await("the spans of the publisher and of the first delivery", func() bool {
				spans := s.collector.Trace(trace)
				return len(testkit.Named(spans, "process")) > len(again) && len(testkit.Named(spans, "publish")) > 0
			})
			spans := s.collector.Trace(trace)
			s.checkChain("redelivered", fmt.Sprintf("%016x", 0xc3), spans)
		})
	}
}

// Log lines about one event name its trace.
func TestLogLinesNameTheTrace(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newTraced(t, 65, "amqp")
	s.start(1, 1)
	s.load(0)
	s.finishLoad()
	s.awaitReadModels()
	trace, parent := writerOf(0xd4, "01")
	s.register("parked", "")
	s.until["parked"] = 1
	if _, err := s.events.InsertOne(t.Context(), bson.D{
		{Key: "aggregateId", Value: "parked"}, {Key: "aggregateType", Value: "User"}, {Key: "eventId", Value: int64(2)},
		{Key: "eventType", Value: "UserEmailUpdatedEvent"}, {Key: "payload", Value: bson.D{}},
		{Key: "metadata", Value: bson.D{{Key: "traceparent", Value: parent}}},
	}); err != nil {
		t.Fatal(err)
	}
	var line string
	s.await("the line that says that the aggregate is parked", func() bool {
		for _, process := range s.Running() {
			text, err := os.ReadFile(process.Log)
			if err != nil {
				t.Fatal(err)
			}
			for l := range strings.Lines(string(text)) {
				if strings.Contains(l, "aggregate parked") {
					line = l
					return true
				}
			}
		}
		return false
	})
	if !strings.Contains(line, `"trace_id":"`+trace+`"`) || !strings.Contains(line, `"span_id":"`) {
		t.Errorf("the line is %s", line)
	}
}
