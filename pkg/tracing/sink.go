package tracing

import (
	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
)

// sink logs the messages of OpenTelemetry's SDK without their fields and the texts of their
// errors, which can hold secrets.
type sink struct {
	logger zerolog.Logger
}

var _ logr.LogSink = sink{}

// sdkWarn is the verbosity of the SDK's warnings. Its other messages have a higher one.
const sdkWarn = 1

// Init implements [logr.LogSink].
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink].
func (sink) Enabled(int) bool { return true }

// Info implements [logr.LogSink].
func (s sink) Info(verbosity int, msg string, _ ...any) {
	level := zerolog.DebugLevel
	if verbosity <= sdkWarn {
		level = zerolog.WarnLevel
	}
	s.logger.WithLevel(level).Msg("OpenTelemetry: " + msg)
}

// Error implements [logr.LogSink].
func (s sink) Error(_ error, msg string, _ ...any) {
	s.logger.Error().Msg("OpenTelemetry cannot " + msg + "; check the variables OTEL_*")
}

// WithValues implements [logr.LogSink].
func (s sink) WithValues(...any) logr.LogSink { return s }

// WithName implements [logr.LogSink].
func (s sink) WithName(string) logr.LogSink { return s }
