package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	mongoevent "go.mongodb.org/mongo-driver/v2/event"
	"go.opentelemetry.io/otel/trace"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/pkg/tracing/tracingtest"
)

const (
	writerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	writerSpan  = "00f067aa0ba902b7"
	sampled     = "00-" + writerTrace + "-" + writerSpan + "-01"
	unsampled   = "00-" + writerTrace + "-" + writerSpan + "-00"
)

func config(c *tracingtest.Collector) tracing.Config {
	return tracing.Config{Exporter: "otlp", Endpoint: c.URL, Protocol: "http/protobuf", Sampler: "parentbased_always_on"}
}

func open(t *testing.T, c tracing.Config, logger zerolog.Logger) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Open(t.Context(), c, tracing.Service{Name: "test", Version: "1", Instance: "a"}, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracer.Close(context.Background()) })
	return tracer
}

func message(id int64, parent string) event.Message {
	return event.Message{
		Keys:      event.Keys{AggregateID: "a", AggregateType: "A", EventID: id, EventType: "T"},
		MessageID: event.MessageID("a", id), SessionKey: "a", TraceParent: parent,
	}
}

func TestDisabledTracingMakesNoTracer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]tracing.Config{
		"zero":     {},
		"none":     {Exporter: "none"},
		"disabled": {Exporter: "otlp", Disabled: true},
	} {
		if tracer := open(t, c, zerolog.Nop()); tracer != nil {
			t.Errorf("%s: tracing is on", name)
		}
	}
}

// off calls everything that tracing does for one event, from the change stream to the read
// model, with tracing off.
func off(ctx context.Context, m *event.Message, h prometheus.Histogram, spans []trace.SpanContext) {
	var tracer *tracing.Tracer
	publisher, processor := tracer.Publisher("", ""), tracer.Processor("", "", "")
	published := publisher.Begin(m, publisher.Now())
	sending, send := publisher.Send(published.In(ctx), spans)
	send.EndSend(1, nil)
	published.End(nil)

	span := processor.Begin(sending, &tracing.Message{Keys: &m.Keys})
	var events *tracing.Events
	events = events.With(&m.Keys, span)
	ctx = events.In(ctx)
	found := tracing.EventsOf(ctx)
	writes := tracer.Write(ctx, found, &tracing.Write{})
	_, commit := tracer.Commit(ctx, "c", 1, tracing.Contexts(writes))
	commit.Observe(h, 1)
	commit.End(nil)
	found.Of(m.AggregateID, m.EventID).Observe(h, 1)
	span.EndWith("done", nil)
}

func TestDisabledTracingAllocatesNothing(t *testing.T) {
	m := message(1, "")
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h"})
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(100, func() { off(ctx, &m, h, nil) }); allocs != 0 {
		t.Errorf("%v allocations for an event, want none", allocs)
	}
}

// BenchmarkDisabledTracing measures the cost of an event while tracing is off.
func BenchmarkDisabledTracing(b *testing.B) {
	m := message(1, "")
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h"})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		off(ctx, &m, h, nil)
	}
}

func TestEventIsOneTraceOverBothProtocols(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := tracingtest.New(t)
			settings := config(c)
			if settings.Protocol = protocol; protocol == "grpc" {
				settings.Endpoint = c.GRPC
			}
			tracer := open(t, settings, zerolog.Nop())
			m := message(1, sampled)
			publisher := tracer.Publisher("bus.example:5671", "events")
			published := publisher.Begin(&m, publisher.Now())
			_, send := publisher.Send(t.Context(), []trace.SpanContext{published.Context()})
			send.EndSend(1, nil)
			published.End(nil)
			properties := m.Properties()
			if properties["traceparent"] != properties["Diagnostic-Id"] || properties["traceparent"] == sampled {
				t.Errorf("the message carries %v", properties)
			}

			parent, state := event.TraceContext(properties)
			processed := tracer.Processor("bus.example", "events", "projector").Begin(t.Context(), &tracing.Message{
				Keys: &m.Keys, MessageID: m.MessageID, Parent: parent, State: state, Deliveries: 2,
			})
			events := (*tracing.Events)(nil).With(&m.Keys, processed)
			writes := tracer.Write(t.Context(), events, &tracing.Write{Projection: "p", Collection: "c", AggregateID: "a", To: 1})
			ctx, commit := tracer.Commit(t.Context(), "c", 1, tracing.Contexts(writes))
			monitor := tracer.Monitor()
			command, _ := bson.Marshal(bson.D{{Key: "update", Value: "c"}})
			monitor.Started(ctx, &mongoevent.CommandStartedEvent{Command: command, CommandName: "update", DatabaseName: "d", RequestID: 1})
			monitor.Failed(ctx, &mongoevent.CommandFailedEvent{CommandFinishedEvent: mongoevent.CommandFinishedEvent{CommandName: "update", RequestID: 1}, Failure: errors.New("no")})
			monitor.Started(t.Context(), &mongoevent.CommandStartedEvent{Command: command, CommandName: "update", RequestID: 2})
			monitor.Succeeded(t.Context(), &mongoevent.CommandSucceededEvent{CommandFinishedEvent: mongoevent.CommandFinishedEvent{RequestID: 2}})
			commit.End(nil)
			for _, w := range writes {
				w.EndWith("applied", nil)
			}
			processed.EndWith("done", nil)
			if err := tracer.Close(t.Context()); err != nil {
				t.Fatal(err)
			}

			spans := c.Trace(writerTrace)
			if len(spans) != 6 || len(c.Spans()) != 6 {
				t.Fatalf("%d spans in the trace of %d, want 6: %+v", len(spans), len(c.Spans()), c.Spans())
			}
			parentOf := map[string]string{"publish events": writerSpan}
			for child, parent := range map[string]string{
				"send events": "publish events", "process events": "publish events", "write c": "process events", "commit c": "write c", "update c": "commit c",
			} {
				parentOf[child] = tracingtest.Named(spans, parent)[0].SpanID
			}
			for _, s := range spans {
				if s.ParentID != parentOf[s.Name] || s.Service != "test" {
					t.Errorf("%s has the parent %s, want %s", s.Name, s.ParentID, parentOf[s.Name])
				}
			}
			kinds := map[string]traces.Span_SpanKind{
				"publish events": traces.Span_SPAN_KIND_PRODUCER, "send events": traces.Span_SPAN_KIND_CLIENT,
				"process events": traces.Span_SPAN_KIND_CONSUMER, "update c": traces.Span_SPAN_KIND_CLIENT,
			}
			for name, kind := range kinds {
				if s := tracingtest.Named(spans, name)[0]; s.Kind != kind {
					t.Errorf("%s is of kind %v", name, s.Kind)
				}
			}
			process := tracingtest.Named(spans, "process events")[0].Attributes
			if process["messaging.system"] != "servicebus" || process["messaging.servicebus.message.delivery_count"] != int64(2) ||
				process["messaging.destination.subscription.name"] != "projector" || process["penstock.outcome"] != "done" {
				t.Errorf("process says %v", process)
			}
			if update := tracingtest.Named(spans, "update c")[0]; !update.Failed || update.Attributes["db.namespace"] != "d" {
				t.Errorf("update is %+v", update)
			}
		})
	}
}

func TestBatchLinksToItsEvents(t *testing.T) {
	t.Parallel()
	c := tracingtest.New(t)
	tracer := open(t, config(c), zerolog.Nop())
	publisher := tracer.Publisher("bus", "events")
	var contexts []trace.SpanContext
	for i := range int64(2) {
		m := message(i+1, "")
		s := publisher.Begin(&m, time.Now())
		contexts = append(contexts, s.Context())
		s.End(nil)
	}
	_, send := publisher.Send(t.Context(), contexts)
	send.EndSend(2, nil)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sends := tracingtest.Named(c.Spans(), "send")
	if len(sends) != 1 || sends[0].ParentID != "" || len(sends[0].Links) != 2 || sends[0].Attributes["messaging.batch.message_count"] != int64(2) {
		t.Fatalf("sends are %+v", sends)
	}
	for i, link := range sends[0].Links {
		if link.SpanID != contexts[i].SpanID().String() || link.TraceID != contexts[i].TraceID().String() {
			t.Errorf("link %d is %+v", i, link)
		}
	}
	if contexts[0].TraceID() == contexts[1].TraceID() {
		t.Error("two events without a parent share a trace")
	}
}

func TestSampling(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sampler string
		ratio   float64
		parent  string
		want    bool
	}{
		"the writer samples":                          {"parentbased_traceidratio", 0, sampled, true},
		"the writer does not sample":                  {"parentbased_always_on", 1, unsampled, false},
		"no decision, ratio 0":                        {"parentbased_traceidratio", 0, "", false},
		"no decision, ratio 1":                        {"parentbased_traceidratio", 1, "", true},
		"malformed traceparent is ignored":            {"parentbased_always_on", 1, "00-garbage", true},
		"not parent-based":                            {"always_on", 0, unsampled, true},
		"always_off although the writer samples":      {"always_off", 1, sampled, false},
		"parent-based always_off, the writer samples": {"parentbased_always_off", 1, sampled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tracingtest.New(t)
			settings := config(c)
			settings.Sampler, settings.Ratio = test.sampler, test.ratio
			tracer := open(t, settings, zerolog.Nop())
			m := message(1, test.parent)
			span := tracer.Publisher("bus", "events").Begin(&m, time.Now())
			span.End(nil)
			if span.Recorded() != test.want {
				t.Errorf("sampled is %t", span.Recorded())
			}
			// The message always has a context, so that the projector makes the same
			// decision.
			flags := "-00"
			if test.want {
				flags = "-01"
			}
			if !strings.HasSuffix(m.TraceParent, flags) || m.TraceParent == test.parent {
				t.Errorf("the message carries %q", m.TraceParent)
			}
			if err := tracer.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(c.Spans()) == 1; got != test.want {
				t.Errorf("%d spans were exported", len(c.Spans()))
			}
		})
	}
}

// lines counts the lines of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func TestUnreachableCollectorIsLoggedOnce(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var log lines
			c := tracing.Config{Exporter: "otlp", Endpoint: "http://" + address, Protocol: protocol, Sampler: "always_on"}
			tracer := open(t, c, zerolog.New(&log).Level(zerolog.InfoLevel))
			publisher := tracer.Publisher("bus", "events")
			// Many more spans than the queue holds. The caller must not wait for the
			// collector.
			for i := range int64(10_000) {
				m := message(i+1, "")
				publisher.Begin(&m, time.Now()).End(nil)
			}
			begun := time.Now()
			_ = tracer.Close(t.Context())
			if took := time.Since(begun); took > tracing.CloseTimeout+time.Minute {
				t.Errorf("closing took %v", took)
			}
			if n := log.count("\n"); n > 1 || n == 1 && log.count("dropping spans") != 1 {
				t.Errorf("%d lines: %s", n, log.text.String())
			}
			if protocol != "grpc" && log.count("dropping spans") != 1 { // gRPC retries for longer
				t.Error("nothing says that spans are dropped")
			}
		})
	}
}

func TestExemplarsAndLogLinesNameTheSpan(t *testing.T) {
	t.Parallel()
	c := tracingtest.New(t)
	tracer := open(t, config(c), zerolog.Nop())
	m := message(1, sampled)
	span := tracer.Publisher("bus", "events").Begin(&m, time.Now())
	defer span.End(nil)

	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h", Buckets: []float64{1}})
	span.Observe(h, 0.5)
	var metric dto.Metric
	if err := h.Write(&metric); err != nil {
		t.Fatal(err)
	}
	exemplar := make(map[string]string)
	for _, label := range metric.GetHistogram().GetBucket()[0].GetExemplar().GetLabel() {
		exemplar[label.GetName()] = label.GetValue()
	}
	if exemplar["trace_id"] != writerTrace || exemplar["span_id"] != span.Context().SpanID().String() {
		t.Errorf("the exemplar is %v", exemplar)
	}

	var log bytes.Buffer
	logger := zerolog.New(&log)
	logger.Info().EmbedObject(span).Msg("a")
	logger.Info().EmbedObject(tracing.SpanOf(span.In(t.Context()))).Msg("b")
	logger.Info().EmbedObject(tracing.Origin{Parent: sampled}).Msg("c")
	logger.Info().EmbedObject(tracing.Span{}).EmbedObject(tracing.Origin{Parent: unsampled}).EmbedObject(tracing.SpanOf(t.Context())).Msg("d")
	id := span.Context().SpanID().String()
	want := `{"level":"info","trace_id":"` + writerTrace + `","span_id":"` + id + `","message":"a"}
{"level":"info","trace_id":"` + writerTrace + `","span_id":"` + id + `","message":"b"}
{"level":"info","trace_id":"` + writerTrace + `","span_id":"` + writerSpan + `","message":"c"}
{"level":"info","message":"d"}
`
	if log.String() != want {
		t.Errorf("the log has\n%s", log.String())
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	wrong := tracing.Config{Exporter: "otlp", Endpoint: "collector:4318", TracesEndpoint: "ftp://x", Ratio: 2}
	err := wrong.Validate()
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT is", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is", "OTEL_TRACES_SAMPLER_ARG is"} {
		if err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("no problem of %s in %v", variable, err)
		}
	}
	wrong.Exporter = "none"
	if err := wrong.Validate(); err != nil {
		t.Errorf("tracing is off, and %v", err)
	}
}
