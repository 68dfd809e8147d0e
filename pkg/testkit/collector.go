package testkit

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span. Its ids are hexadecimal.
type Span struct {
	Service, Name   string
	Kind            traces.Span_SpanKind
	TraceID, SpanID string
	ParentID        string
	Attributes      map[string]any
	Failed          bool
}

// Collector receives spans. Make it with [NewCollector]. It is safe for concurrent use.
type Collector struct {
	// URL is the endpoint for OTLP over HTTP.
	URL string

	mu    sync.Mutex
	spans []Span
}

// NewCollector starts a collector, which stops at the end of the test.
func NewCollector(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{}
	web := httptest.NewServer(http.HandlerFunc(c.serve))
	tb.Cleanup(web.Close)
	c.URL = web.URL
	return c
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		service, _ := attributesOf(resource.GetResource().GetAttributes())["service.name"].(string)
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(service, s))
			}
		}
	}
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
	return Span{
		Service: service, Name: s.GetName(), Kind: s.GetKind(),
		TraceID: hex.EncodeToString(s.GetTraceId()), SpanID: hex.EncodeToString(s.GetSpanId()),
		ParentID:   hex.EncodeToString(s.GetParentSpanId()),
		Attributes: attributesOf(s.GetAttributes()),
		Failed:     s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR,
	}
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
