package obs

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// Config says how a service logs. Both services embed it; the tags are kong's. The zero
// value means the level info and the format json.
type Config struct {
	LogLevel  string `name:"log-level" env:"PENSTOCK_LOG_LEVEL" enum:"trace,debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"Lowest level that is logged: trace, debug, info, warn or error."`
	LogFormat string `name:"log-format" env:"PENSTOCK_LOG_FORMAT" enum:"json,console" default:"json" placeholder:"FORMAT" help:"Form of a log line: json, or console for people."`
}

// timeLayout is RFC 3339 with milliseconds. Seconds are too coarse to order the log lines
// of two processes during a failover.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// NewLogger makes the logger of a service. It writes a line to w for each message, with the
// time in UTC. It changes none of zerolog's globals.
func NewLogger(w io.Writer, c Config) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil || c.LogLevel == "" {
		level = zerolog.InfoLevel
	}
	if c.LogFormat == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", TimeLocation: time.UTC, NoColor: !isTerminal(w)}
	}
	return zerolog.New(w).Level(level).Hook(zerolog.HookFunc(stamp))
}

func stamp(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(timeLayout))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
