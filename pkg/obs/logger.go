package obs

import (
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

// Config says how a service logs. Both services embed it; the tags are kong's.
type Config struct {
	LogLevel  string `name:"log-level" env:"PENSTOCK_LOG_LEVEL" enum:"trace,debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"Least level that is logged: ${enum}."`
	LogFormat string `name:"log-format" env:"PENSTOCK_LOG_FORMAT" enum:"json,console" default:"json" placeholder:"FORMAT" help:"Form of a log line: ${enum}."`
}

// NewLogger makes the logger of a service: a line for each message on w, with a
// timestamp in UTC. Empty settings are info and json.
func NewLogger(w io.Writer, c Config) (zerolog.Logger, error) {
	level := zerolog.InfoLevel
	if c.LogLevel != "" {
		var err error
		if level, err = zerolog.ParseLevel(c.LogLevel); err != nil {
			return zerolog.Logger{}, fmt.Errorf("parse log level %q: %w", c.LogLevel, err)
		}
	}
	switch c.LogFormat {
	case "", "json":
	case "console":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: true}
	default:
		return zerolog.Logger{}, fmt.Errorf("unknown log format %q, known are json and console", c.LogFormat)
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), nil
}

// BridgeKlog sends what client-go logs through klog to logger.
func BridgeKlog(logger zerolog.Logger) {
	sink := zerologr.NewLogSink(&logger)
	klog.SetLoggerWithOptions(logr.New(sink), klog.ContextualLogger(true))
}
