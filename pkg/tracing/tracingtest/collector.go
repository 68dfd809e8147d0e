package tracingtest

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Span is a received span. Its ids are hexadecimal.
type Span struct {
	Service, Name   string
	Kind            traces.Span_SpanKind
	TraceID, SpanID string
	ParentID        string
	Links           []Link
	Attributes      map[string]any
	Failed          bool
	Status          string
	Begin, End      time.Time
}

// Link is a link of a span.
type Link struct{ TraceID, SpanID string }

// Collector receives spans. Make it with [New]. It is safe for concurrent use.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	// URL is the endpoint for OTLP over HTTP, and GRPC the one for OTLP over gRPC.
	URL, GRPC string

	mu    sync.Mutex
	spans []Span
}

// New starts a collector, which stops at the end of the test.
func New(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{}
	web := httptest.NewServer(http.HandlerFunc(c.serve))
	tb.Cleanup(web.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			tb.Error(err)
		}
	})
	c.URL, c.GRPC = web.URL, "http://"+listener.Addr().String()
	return c
}

// Export implements the service of OTLP over gRPC.
func (c *Collector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		service, _ := attributesOf(resource.GetResource().GetAttributes())["service.name"].(string)
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(service, s))
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// serve implements OTLP over HTTP.
func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "use POST /v1/traces with application/x-protobuf", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err := errors.Join(err, proto.Unmarshal(body, &request)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), &request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Spans returns the spans received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Trace returns the spans of one trace received so far.
func (c *Collector) Trace(traceID string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.TraceID != traceID })
}

// Named returns the spans whose name is name, or begins with it and a space.
func Named(spans []Span, name string) []Span {
	var named []Span
	for _, s := range spans {
		if s.Name == name || strings.HasPrefix(s.Name, name+" ") {
			named = append(named, s)
		}
	}
	return named
}

func spanOf(service string, s *traces.Span) Span {
	span := Span{
		Service: service, Name: s.GetName(), Kind: s.GetKind(),
		TraceID: hex.EncodeToString(s.GetTraceId()), SpanID: hex.EncodeToString(s.GetSpanId()),
		ParentID:   hex.EncodeToString(s.GetParentSpanId()),
		Attributes: attributesOf(s.GetAttributes()),
		Failed:     s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR,
		Status:     s.GetStatus().GetMessage(),
		Begin:      time.Unix(0, int64(s.GetStartTimeUnixNano())),
		End:        time.Unix(0, int64(s.GetEndTimeUnixNano())),
	}
	for _, link := range s.GetLinks() {
		span.Links = append(span.Links, Link{hex.EncodeToString(link.GetTraceId()), hex.EncodeToString(link.GetSpanId())})
	}
	return span
}

func attributesOf(pairs []*common.KeyValue) map[string]any {
	attributes := make(map[string]any, len(pairs))
	for _, pair := range pairs {
		switch v := pair.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			attributes[pair.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			attributes[pair.GetKey()] = v.IntValue
		case *common.AnyValue_BoolValue:
			attributes[pair.GetKey()] = v.BoolValue
		}
	}
	return attributes
}
