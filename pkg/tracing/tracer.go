package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-cdc/penstock/pkg/obs"
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
	// By default the SDK writes to stderr. It reports wrong entries of OTEL_EXPORTER_OTLP_HEADERS
	// and OTEL_RESOURCE_ATTRIBUTES with their values, which can be secrets.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	// Later options have precedence: the environment's variables.
	described, err := resource.New(ctx, resource.WithAttributes(
		semconv.ServiceName(s.Name), semconv.ServiceVersion(s.Version), semconv.ServiceInstanceID(s.Instance),
	), resource.WithFromEnv())
	if err != nil {
		logger.Warn().Msg("OTEL_RESOURCE_ATTRIBUTES not understood; write it as key=value,key=value")
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithSampler(c.sampler()),
		sdktrace.WithResource(described),
	)
	var failures obs.Repeats
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		failures.Warn(&logger).Err(err).Msg("traces not exported, dropping spans until the collector accepts them; check OTEL_EXPORTER_OTLP_ENDPOINT")
	}))
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
