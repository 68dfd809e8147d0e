package leader

import (
	"slices"

	"github.com/go-logr/logr"
)

// forDebugging lowers the level of the messages of client-go's elector by one, and logs
// errors as messages. The elector reports each failed request, several per second;
// [contact] and the terms report what matters.
func forDebugging(logger logr.Logger) logr.Logger {
	sink := logger.GetSink()
	if sink == nil {
		return logger
	}
	return logger.WithSink(debugSink{sink})
}

type debugSink struct{ logr.LogSink }

func (s debugSink) Enabled(verbosity int) bool { return s.LogSink.Enabled(verbosity + 1) }

func (s debugSink) Info(verbosity int, msg string, keysAndValues ...any) {
	s.LogSink.Info(verbosity+1, msg, keysAndValues...)
}

func (s debugSink) Error(err error, msg string, keysAndValues ...any) {
	if s.Enabled(0) {
		s.Info(0, msg, slices.Concat(keysAndValues, []any{"error", err})...)
	}
}

func (s debugSink) WithValues(keysAndValues ...any) logr.LogSink {
	return debugSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s debugSink) WithName(name string) logr.LogSink {
	return debugSink{s.LogSink.WithName(name)}
}
