package obs

import (
	"flag"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

// klog's verbosities, by
// https://github.com/kubernetes/community/blob/master/contributors/devel/sig-instrumentation/logging.md:
// 0 is for everyone, up to 2 for operators of Kubernetes itself, from 6 on every request is
// logged. Messages of client-go from 1 on, such as the states of its feature gates at the
// start, do not help an operator of this process.
const (
	klogDebug = 1
	klogTrace = 6
	// klogMax is the highest verbosity that Kubernetes' packages use.
	klogMax = 10
)

// BridgeKlog sends the messages of klog to logger: V(0) as info, V(1) to V(5) as debug,
// higher ones as trace. A process has one klog, so call BridgeKlog once, before the first
// log message.
func BridgeKlog(logger zerolog.Logger) {
	// client-go's own level is sufficient, and zerologr's number differs from klog's.
	zerologr.VerbosityFieldName = ""
	klog.SetLoggerWithOptions(logr.New(newKlogSink(&logger)), klog.ContextualLogger(true))

	// klog.V(4).Infof checks klog's own verbosity before the logger's.
	verbosity := klogDebug - 1
	switch level := logger.GetLevel(); {
	case level <= zerolog.TraceLevel:
		verbosity = klogMax
	case level == zerolog.DebugLevel:
		verbosity = klogTrace - 1
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		logger.Warn().Err(err).Msg("verbosity of klog not set")
	}
}

// klogSink is zerologr's sink with klog's verbosities translated to its own: 0 is
// info, 1 debug, 2 trace.
type klogSink struct {
	logr.LogSink
}

var _ logr.CallDepthLogSink = klogSink{}

func newKlogSink(logger *zerolog.Logger) klogSink {
	return klogSink{zerologr.NewLogSink(logger)}
}

func translate(verbosity int) int {
	switch {
	case verbosity >= klogTrace:
		return 2
	case verbosity >= klogDebug:
		return 1
	default:
		return 0
	}
}

func (s klogSink) Enabled(verbosity int) bool { return s.LogSink.Enabled(translate(verbosity)) }

func (s klogSink) Info(verbosity int, msg string, keysAndValues ...any) {
	s.LogSink.Info(translate(verbosity), msg, keysAndValues...)
}

func (s klogSink) WithValues(keysAndValues ...any) logr.LogSink {
	return klogSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s klogSink) WithName(name string) logr.LogSink {
	return klogSink{s.LogSink.WithName(name)}
}

func (s klogSink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return klogSink{deeper.WithCallDepth(depth)}
	}
	return s
}
