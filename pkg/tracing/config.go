package tracing

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Config says whether and where spans are exported. Both services embed it; the tags are
// kong's. The variables are OpenTelemetry's. The SDK itself reads more of them:
// OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY, _COMPRESSION
// and _TIMEOUT, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_BSP_*. The zero value
// exports nothing.
type Config struct {
	Exporter       string  `name:"traces-exporter" env:"OTEL_TRACES_EXPORTER" enum:"none,otlp" default:"none" help:"Where traces go: nowhere (none), or to a collector over OTLP (otlp)."`
	Endpoint       string  `name:"otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" url:"" placeholder:"URL" help:"URL of the collector. The default is http://localhost:4318, or port 4317 with the protocol grpc."`
	TracesEndpoint string  `name:"otlp-traces-endpoint" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" url:"" placeholder:"URL" help:"URL of the collector for traces, with the path; the default is the path v1/traces below --otlp-endpoint."`
	Protocol       string  `name:"otlp-protocol" env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,OTEL_EXPORTER_OTLP_PROTOCOL" enum:"http/protobuf,grpc" default:"http/protobuf" help:"Protocol of the collector: http/protobuf or grpc."`
	Sampler        string  `name:"traces-sampler" env:"OTEL_TRACES_SAMPLER" enum:"always_on,always_off,traceidratio,parentbased_always_on,parentbased_always_off,parentbased_traceidratio" default:"parentbased_traceidratio" help:"Which events are traced. The parent-based samplers follow the writer's decision in metadata.traceparent, and decide by the rest of their name if there is none."`
	Ratio          float64 `name:"traces-sampler-arg" env:"OTEL_TRACES_SAMPLER_ARG" default:"0.01" placeholder:"SHARE" help:"Share of the events that the samplers with traceidratio in their name trace, from 0 to 1."`
	Disabled       bool    `name:"otel-disabled" env:"OTEL_SDK_DISABLED" help:"Export no traces, whatever --traces-exporter says."`
}

// On reports whether spans are exported.
func (c Config) On() bool { return c.Exporter == exporterOTLP && !c.Disabled }

const (
	exporterOTLP = "otlp"
	protocolGRPC = "grpc"
)

// Validate reports all problems together, each with its variable. If tracing is off, it
// checks nothing.
func (c Config) Validate() error {
	if !c.On() {
		return nil
	}
	var problems []error
	for variable, endpoint := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.Endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.TracesEndpoint} {
		if endpoint == "" {
			continue
		}
		// The exporter ignores a user, a password and parameters, and logs show the endpoint.
		u, err := url.Parse(endpoint)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			problems = append(problems, fmt.Errorf("%s is not a URL of a collector: use one such as http://collector:4318", variable))
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, fmt.Errorf("%s has a user, a password or parameters, which have no effect: use only the address, and OTEL_EXPORTER_OTLP_HEADERS for credentials", variable))
		}
	}
	if c.Ratio < 0 || c.Ratio > 1 {
		problems = append(problems, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %v: use 0 to 1", c.Ratio))
	}
	return errors.Join(problems...)
}

// endpoint returns the URL to which spans are sent.
func (c Config) endpoint() string {
	switch {
	case c.TracesEndpoint != "":
		return c.TracesEndpoint
	case c.Protocol == protocolGRPC && c.Endpoint == "":
		return "http://localhost:4317"
	case c.Protocol == protocolGRPC:
		return c.Endpoint
	case c.Endpoint == "":
		return "http://localhost:4318/v1/traces"
	default:
		return strings.TrimSuffix(c.Endpoint, "/") + "/v1/traces"
	}
}

// sampler returns the configured sampler. It also samples operations for several events if
// one of the events is sampled.
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
	return batchSampler{root}
}

// batchSampler samples a span that links to a sampled one, and leaves other spans to
// Sampler.
type batchSampler struct{ sdktrace.Sampler }

// ShouldSample implements [sdktrace.Sampler].
func (s batchSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
		}
	}
	return s.Sampler.ShouldSample(p)
}
