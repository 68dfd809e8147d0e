package tracing

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Service describes the process that makes the spans.
type Service struct {
	// Name is the service's name; OTEL_SERVICE_NAME overrides it.
	Name string
	// Version is the version of the build.
	Version string
	// Instance distinguishes the processes of a service.
	Instance string
}

const (
	// scope names the instrumentation.
	scope = "github.com/penstock-cdc/penstock/pkg/tracing"
	// exportTimeout bounds the export of a batch of spans, with its retries.
	exportTimeout = 10 * time.Second
	// maxLinks bounds the links of a batch's span; the SDK's default is 128.
	// OTEL_SPAN_LINK_COUNT_LIMIT overrides it.
	maxLinks = 1000
	// CloseTimeout is how long a stopping process waits for the export of its last spans.
	CloseTimeout = 2 * time.Second
)

// Tracer makes spans. A process has one. A nil Tracer makes none. It is safe for concurrent
// use. Make it with [Open].
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Open makes the tracer of a valid configuration; it returns nil if tracing is off. It does
// not wait for the collector. The caller closes the tracer.
func Open(ctx context.Context, c Config, s Service, logger zerolog.Logger) (*Tracer, error) {
	if !c.On() {
		return nil, nil
	}
	// The exporter reports wrong variables while it is made.
	handleErrors(logger)
	exporter, err := newExporter(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	report := &reporter{SpanExporter: exporter, endpoint: c.endpoint(), logger: logger}
	return open(report, c, s)
}

// handleErrors sends the messages of the SDK to the logger. By default the SDK writes them
// to stderr. It reports a wrong entry of OTEL_EXPORTER_OTLP_HEADERS with its value, which
// is a secret, so its messages are logged without their fields.
func handleErrors(logger zerolog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if errors.Is(err, resource.ErrPartialResource) {
			// Its text has the value of OTEL_RESOURCE_ATTRIBUTES.
			logger.Warn().Msg("OTEL_RESOURCE_ATTRIBUTES not understood; write it as key=value,key=value")
			return
		}
		logger.Debug().Err(err).Msg("tracing reports an error")
	}))
	otel.SetLogger(logr.New(sink{logger: logger}))
}

func newExporter(ctx context.Context, c Config) (sdktrace.SpanExporter, error) {
	if c.Protocol == protocolGRPC {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(c.endpoint()))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.endpoint()))
}

func open(exporter sdktrace.SpanExporter, c Config, s Service) (*Tracer, error) {
	service := resource.NewSchemaless(
		semconv.ServiceName(s.Name),
		semconv.ServiceVersion(s.Version),
		semconv.ServiceInstanceID(s.Instance),
	)
	// The environment's variables have precedence.
	described, err := resource.Merge(service, resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describe the service by OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	if limits.LinkCountLimit == sdktrace.DefaultLinkCountLimit {
		limits.LinkCountLimit = maxLinks
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithSampler(c.sampler()),
		sdktrace.WithResource(described),
		sdktrace.WithRawSpanLimits(limits),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}, nil
}

// Close exports the spans that have ended, and stops exporting. It takes at most
// [CloseTimeout], even if ctx has ended.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last traces: %w", err)
	}
	return nil
}

// reporter logs when exporting begins to fail, and when it works again. The SDK drops the
// spans of an export that failed.
type reporter struct {
	sdktrace.SpanExporter
	endpoint string
	logger   zerolog.Logger
	failing  atomic.Bool
}

// ExportSpans implements [sdktrace.SpanExporter].
func (r *reporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && r.failing.CompareAndSwap(false, true):
		r.logger.Warn().Err(err).Str("endpoint", r.endpoint).
			Msg("traces not exported, dropping spans until the collector accepts them; check OTEL_EXPORTER_OTLP_ENDPOINT")
	case err == nil && r.failing.CompareAndSwap(true, false):
		r.logger.Info().Str("endpoint", r.endpoint).Msg("exporting traces again")
	}
	return nil
}
