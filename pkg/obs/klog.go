package obs

import (
	"flag"
	"strconv"

	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

// BridgeKlog sends the messages of klog to logger: V(0) as info, V(1) as debug, V(2) as trace; it
// drops higher ones. A process has one klog, so call BridgeKlog once, before the first log
// message.
func BridgeKlog(logger zerolog.Logger) {
	// client-go's own level is sufficient.
	zerologr.VerbosityFieldName = ""
	klog.SetLoggerWithOptions(zerologr.New(&logger), klog.ContextualLogger(true))

	// klog.V(1).Infof checks klog's own verbosity before the logger's.
	verbosity := max(0, int(zerolog.InfoLevel-logger.GetLevel()))
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		logger.Warn().Err(err).Msg("verbosity of klog not set")
	}
}
