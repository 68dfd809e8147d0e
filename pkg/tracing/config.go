package tracing

import (
	"fmt"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Config says whether spans are exported, and of which events. Both services embed it; the tags
// are kong's. The variables are OpenTelemetry's. The SDK itself reads the others:
// OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY,
// _COMPRESSION and _TIMEOUT, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_BSP_*. The
// zero value exports nothing.
type Config struct {
	Exporter string  `name:"traces-exporter" env:"OTEL_TRACES_EXPORTER" enum:"none,otlp" default:"none" help:"Where traces go: nowhere (none), or over OTLP and HTTP to the collector in $OTEL_EXPORTER_OTLP_ENDPOINT (otlp)."`
	Sampler  string  `name:"traces-sampler" env:"OTEL_TRACES_SAMPLER" enum:"always_on,always_off,traceidratio,parentbased_always_on,parentbased_always_off,parentbased_traceidratio" default:"parentbased_traceidratio" help:"Which events are traced. The parent-based samplers follow the writer's decision in metadata.traceparent, and decide by the rest of their name if there is none."`
	Ratio    float64 `name:"traces-sampler-arg" env:"OTEL_TRACES_SAMPLER_ARG" default:"0.01" placeholder:"SHARE" help:"Share of the events that the samplers with traceidratio in their name trace, from 0 to 1."`
	Disabled bool    `name:"otel-disabled" env:"OTEL_SDK_DISABLED" help:"Export no traces, whatever --traces-exporter says."`
}

// On reports whether spans are exported.
func (c Config) On() bool { return c.Exporter == "otlp" && !c.Disabled }

// Check reports a wrong setting. If tracing is off, it checks nothing.
func (c Config) Check() error {
	if c.On() && (c.Ratio < 0 || c.Ratio > 1) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %v: use 0 to 1", c.Ratio)
	}
	return nil
}

// sampler returns the configured sampler.
func (c Config) sampler() sdktrace.Sampler {
	name, parentBased := strings.CutPrefix(c.Sampler, "parentbased_")
	var root sdktrace.Sampler
	switch name {
	case "always_on":
		root = sdktrace.AlwaysSample()
	case "always_off":
		root = sdktrace.NeverSample()
	default:
		root = sdktrace.TraceIDRatioBased(c.Ratio)
	}
	if parentBased {
		root = sdktrace.ParentBased(root)
	}
	return root
}
