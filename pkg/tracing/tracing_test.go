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
	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

const (
	writerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	writerSpan  = "00f067aa0ba902b7"
	sampled     = "00-" + writerTrace + "-" + writerSpan + "-01"
	unsampled   = "00-" + writerTrace + "-" + writerSpan + "-00"
)

func config(t *testing.T, endpoint string) tracing.Config {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	return tracing.Config{Exporter: "otlp", Sampler: "parentbased_always_on"}
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
func off(ctx context.Context, m *event.Message, h prometheus.Histogram) {
	var publisher, processor *tracing.Messages
	published := publisher.Publish(m, publisher.Now())
	ctx = published.In(ctx)
	published.End(nil)

	span := processor.Process(&m.Keys, m.MessageID, nil, 1)
	var events *tracing.Events
	events = events.With(&m.Keys, span)
	found := tracing.EventsOf(events.In(ctx))
	found.Of(m.AggregateID, m.EventID).Observe(h, 1)
	span.EndWith("done", nil)
}

func TestDisabledTracingAllocatesNothing(t *testing.T) {
	m := message(1, "")
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h"})
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(100, func() { off(ctx, &m, h) }); allocs != 0 {
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
		off(ctx, &m, h)
	}
}

func TestEventIsOneTrace(t *testing.T) {
	c := testkit.NewCollector(t)
	tracer := open(t, config(t, c.URL), zerolog.Nop())
	m := message(1, sampled)
	publisher := tracer.Publisher("bus.example:5671", "events")
	publisher.Publish(&m, publisher.Now()).End(errors.New("refused"))
	if m.TraceParent == sampled {
		t.Errorf("the message carries %s", m.TraceParent)
	}
	tracer.Processor("bus.example", "events", "projector").Process(&m.Keys, m.MessageID, map[string]any{"traceparent": m.TraceParent, "tracestate": m.TraceState}, 2).EndWith("done", nil)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.Trace(writerTrace)
	if len(spans) != 2 || len(c.Spans()) != 2 {
		t.Fatalf("%d spans in the trace of %d, want 2: %+v", len(spans), len(c.Spans()), c.Spans())
	}
	publish, process := testkit.Named(spans, "publish events")[0], testkit.Named(spans, "process events")[0]
	if publish.ParentID != writerSpan || publish.Kind != traces.Span_SPAN_KIND_PRODUCER || publish.Service != "test" || !publish.Failed {
		t.Errorf("the event was published by %+v", publish)
	}
	if process.ParentID != publish.SpanID || process.Kind != traces.Span_SPAN_KIND_CONSUMER || process.Failed {
		t.Errorf("the event was processed by %+v", process)
	}
	said := process.Attributes
	if said["messaging.system"] != "servicebus" || said["messaging.servicebus.message.delivery_count"] != int64(2) ||
		said["messaging.destination.subscription.name"] != "projector" || said["penstock.outcome"] != "done" || said["penstock.event.id"] != int64(1) {
		t.Errorf("process says %v", said)
	}
}

func TestSampling(t *testing.T) {
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
			c := testkit.NewCollector(t)
			settings := config(t, c.URL)
			settings.Sampler, settings.Ratio = test.sampler, test.ratio
			tracer := open(t, settings, zerolog.Nop())
			m := message(1, test.parent)
			span := tracer.Publisher("bus", "events").Publish(&m, time.Now())
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	var log lines
	tracer := open(t, config(t, "http://"+address), zerolog.New(&log).Level(zerolog.InfoLevel))
	publisher := tracer.Publisher("bus", "events")
	// Many more spans than the queue holds. The caller must not wait for the collector.
	for i := range int64(10_000) {
		m := message(i+1, "")
		publisher.Publish(&m, time.Now()).End(nil)
	}
	begun := time.Now()
	_ = tracer.Close(t.Context())
	if took := time.Since(begun); took > tracing.CloseTimeout+time.Minute {
		t.Errorf("closing took %v", took)
	}
	if log.count("\n") != 1 || log.count("dropping spans") != 1 {
		t.Errorf("the log has %s", log.text.String())
	}
}

func TestExemplarsAndLogLinesNameTheSpan(t *testing.T) {
	tracer := open(t, config(t, testkit.NewCollector(t).URL), zerolog.Nop())
	m := message(1, sampled)
	span := tracer.Publisher("bus", "events").Publish(&m, time.Now())
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
	if exemplar["trace_id"] != writerTrace || exemplar["span_id"] == "" {
		t.Errorf("the exemplar is %v", exemplar)
	}

	var log bytes.Buffer
	logger := zerolog.New(&log)
	logger.Info().EmbedObject(span).Msg("a")
	logger.Info().EmbedObject(tracing.SpanOf(span.In(t.Context()))).Msg("b")
	logger.Info().EmbedObject(tracing.Span{}).EmbedObject(tracing.SpanOf(t.Context())).Msg("c")
	id := exemplar["span_id"]
	want := `{"level":"info","trace_id":"` + writerTrace + `","span_id":"` + id + `","message":"a"}
{"level":"info","trace_id":"` + writerTrace + `","span_id":"` + id + `","message":"b"}
{"level":"info","message":"c"}
`
	if log.String() != want {
		t.Errorf("the log has\n%s", log.String())
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	wrong := tracing.Config{Exporter: "otlp", Ratio: 2}
	if err := wrong.Check(); err == nil || !strings.Contains(err.Error(), "OTEL_TRACES_SAMPLER_ARG is 2") {
		t.Errorf("the problem is %v", err)
	}
	wrong.Exporter = "none"
	if err := wrong.Check(); err != nil {
		t.Errorf("tracing is off, and %v", err)
	}
}
