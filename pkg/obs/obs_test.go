package obs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/klog/v2"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := obs.NewLogger(&out, obs.Config{LogLevel: "debug", LogFormat: "json"})
	log.Trace().Msg("not this")
	log.Debug().Str("k", "v").Err(errors.New("broken")).Msg("this")
	var line struct{ Level, K, Error, Message, Time string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	at, err := time.Parse("2006-01-02T15:04:05.000Z", line.Time)
	if err != nil || time.Since(at) > time.Minute {
		t.Errorf("time %q: %v", line.Time, err)
	}
	if line.Level != "debug" || line.K != "v" || line.Error != "broken" || line.Message != "this" {
		t.Errorf("got %+v", line)
	}
}

func TestNewLoggerDefaults(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := obs.NewLogger(&out, obs.Config{})
	log.Debug().Msg("not this")
	log.Info().Msg("this")
	if got := out.String(); !strings.HasPrefix(got, `{"level":"info",`) || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestNewLoggerConsole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := obs.NewLogger(&out, obs.Config{LogFormat: "console"})
	log.Warn().Int("n", 3).Msg("look")
	if got := out.String(); !strings.Contains(got, "WRN look n=3") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

//nolint:paralleltest // klog is one for the process
func TestBridgeKlog(t *testing.T) {
	t.Cleanup(klog.CaptureState().Restore)
	for _, c := range []struct {
		level zerolog.Level
		want  string
	}{
		{zerolog.InfoLevel, "info:v0 error:bad info:plain0 error:plain-error info:named"},
		{zerolog.DebugLevel, "info:v0 debug:v1 error:bad info:plain0 debug:plain1 error:plain-error info:named debug:named1"},
		{zerolog.TraceLevel, "info:v0 debug:v1 trace:v2 error:bad info:plain0 debug:plain1 trace:plain2 error:plain-error info:named debug:named1"},
		{zerolog.ErrorLevel, "error:bad error:plain-error"},
	} {
		var out bytes.Buffer
		obs.BridgeKlog(zerolog.New(&out).Level(c.level))

		logger := klog.Background()
		logger.Info("v0", "key", "value")
		logger.V(1).Info("v1")
		logger.V(2).Info("v2")
		logger.Error(errors.New("cause"), "bad")
		klog.Info("plain0")
		klog.V(1).Infof("plain%d", 1)
		klog.V(2).InfoS("plain2", "k", 1)
		klog.Errorf("plain-%s", "error")
		named := klog.FromContext(klog.NewContext(t.Context(), logger.WithName("election").WithValues("lease", "a")))
		named.Info("named")
		named.V(1).Info("named1")

		var got []string
		for line := range strings.Lines(out.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			message, _ := fields["message"].(string)
			level, _ := fields["level"].(string)
			got = append(got, level+":"+message)
			if strings.HasPrefix(message, "named") && (fields["logger"] != "election" || fields["lease"] != "a") ||
				message == "v0" && fields["key"] != "value" || message == "bad" && fields["error"] != "cause" {
				t.Errorf("got %q", line)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.level, got, c.want)
		}
	}
}

func TestNewRegistry(t *testing.T) {
	t.Parallel()
	families, err := obs.NewRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, family := range families {
		found[family.GetName()] = true
	}
	for _, want := range []string{"go_goroutines", "process_cpu_seconds_total", "go_build_info"} {
		if !found[want] {
			t.Errorf("no %s", want)
		}
	}
}
