package obs_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

func TestRepeatsPassesALinePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := zerolog.New(&log)
		var repeats obs.Repeats
		for range 100 {
			repeats.Warn(&logger).Str("a", "b").Msg("retrying")
			<-time.After(obs.RepeatInterval / 40)
		}
		want := []string{
			`{"level":"warn","a":"b","message":"retrying"}`,
			`{"level":"warn","omitted":39,"a":"b","message":"retrying"}`,
			`{"level":"warn","omitted":39,"a":"b","message":"retrying"}`,
		}
		if got := strings.TrimSpace(log.String()); got != strings.Join(want, "\n") {
			t.Errorf("logged\n%s", got)
		}
	})
}
