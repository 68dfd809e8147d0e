package statuspage

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

func newPage(tables ...Source) (Page, prometheus.Gauge) {
	r := prometheus.NewRegistry()
	depth := prometheus.NewGauge(prometheus.GaugeOpts{Name: "depth", Help: "h"})
	r.MustRegister(depth)
	return Page{
		Service: "publisher", Instance: "pod-0", Version: "v1",
		Recorder: NewRecorder(r, []Stage{{Name: "Lanes", About: "One for each key.", Figures: []Figure{
			{Name: "depth", Read: Value("depth"), Of: func(Families, Families, float64) float64 { return 8 }, Alarm: Above(5)},
			{Name: "absent", Unit: Seconds, Read: Value("absent"), Alarm: Below(5)},
		}}}),
		Verdict: func() health.Verdict { return health.Judge(nil) },
		Tables:  tables,
	}, depth
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w
}

func data(t *testing.T, h http.Handler) view {
	t.Helper()
	body := get(t, h, "/status/data").Body
	var v view
	if err := json.Unmarshal(body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

func TestPageLoadsNoExternalAssets(t *testing.T) {
	t.Parallel()
	page, _ := newPage()
	h := Handler(page)
	for path, kind := range map[string]string{
		"/status/": "text/html", "/status/status.css": "text/css", "/status/status.js": "text/javascript",
	} {
		r := get(t, h, path)
		if r.Code != http.StatusOK || !strings.HasPrefix(r.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", path, r.Code, r.Header().Get("Content-Type"))
		}
		for _, address := range []string{"https://", `src="/`, `href="/`, `fetch("/`} {
			if strings.Contains(r.Body.String(), address) {
				t.Errorf("%s asks for %s, which a path prefix or a closed network breaks", path, address)
			}
		}
		if policy := r.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
	r := get(t, h, "/status")
	if r.Code != http.StatusPermanentRedirect || r.Header().Get("Location") != "status/" {
		t.Errorf("/status: %d to %q, want a relative address", r.Code, r.Header().Get("Location"))
	}
	if r := get(t, h, "/status/nothing"); r.Code != http.StatusNotFound {
		t.Errorf("an unknown page: %d", r.Code)
	}
}

func TestDataHasFiguresProblemsAndTables(t *testing.T) {
	t.Parallel()
	many := func(context.Context) ([]Row, error) { return make([]Row, 3*maxRows), nil }
	refused := func(context.Context) ([]Row, error) { return nil, errors.New("no primary") }
	page, depth := newPage(Source{Name: "many", Rows: many}, Source{Name: "refused", Empty: "none", Rows: refused})
	page.Verdict = func() health.Verdict {
		return health.Judge([]health.Condition{{Name: "parked", State: health.Degraded, Text: "3 aggregates are parked", Remedy: "projector parked list"}})
	}
	h := Handler(page)

	v := data(t, h)
	if f := v.Stages[0].Figures[0]; f.Value != nil || len(f.Series) != 0 {
		t.Errorf("a figure before the first recording: %+v", f)
	}
	depth.Set(6)
	page.Recorder.record(time.Now())
	v = data(t, h)
	if f := v.Stages[0].Figures[0]; f.Value == nil || *f.Value != 6 || !f.Alarm || f.Of == nil || *f.Of != 8 {
		t.Errorf("a figure above its limit, of 8: %+v", f)
	}
	if f := v.Stages[0].Figures[1]; f.Value != nil || f.Alarm || f.Of != nil || len(f.Series) != 1 {
		t.Errorf("a figure that could not be read: %+v", f)
	}
	if v.State != health.Degraded || len(v.Conditions) != 1 || v.Conditions[0].Remedy != "projector parked list" {
		t.Errorf("verdict: %+v", v.Verdict)
	}
	if len(v.Tables) != 2 || len(v.Tables[0].Rows) != maxRows || v.Tables[1].Error != "no primary" || len(v.Tables[1].Rows) != 0 {
		t.Errorf("tables: %+v", v.Tables)
	}
}

func TestAlarmIsSuppressedWhileAnotherMetricSaysSo(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	runway := prometheus.NewGauge(prometheus.GaugeOpts{Name: "runway", Help: "h"})
	complete := prometheus.NewGauge(prometheus.GaugeOpts{Name: "complete", Help: "h"})
	registry.MustRegister(runway)
	r := NewRecorder(registry, []Stage{{Figures: []Figure{{Read: Value("runway"), Alarm: Below(1), Unless: Value("complete")}}}})
	alarm := func() bool {
		r.record(time.Now())
		return r.view()[0].Figures[0].Alarm
	}
	if !alarm() {
		t.Error("no alarm while the other metric is absent")
	}
	registry.MustRegister(complete)
	if !alarm() {
		t.Error("no alarm while the other metric is 0")
	}
	complete.Set(1)
	if alarm() {
		t.Error("an alarm while the other metric is 1")
	}
}

func TestRecorderKeepsFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page, depth := newPage()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			page.Recorder.Run(ctx)
		}()
		for i := range 2 * kept {
			synctest.Wait()
			depth.Set(float64(i + 1))
			<-time.After(interval)
		}
		synctest.Wait()
		end()
		<-ended
		series := page.Recorder.view()[0].Figures[0].Series
		if len(series) != kept || *series[0] != kept+1 || *series[kept-1] != 2*kept {
			t.Errorf("%d recordings from %v to %v, want the last %d", len(series), *series[0], *series[len(series)-1], kept)
		}
	})
}

// All viewers together cause one reading of the state database in each interval.
func TestViewersShareAReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int64
		page, _ := newPage(Source{Name: "jobs", Rows: func(ctx context.Context) ([]Row, error) {
			if err := mongotest.CheckNoDeadline(ctx); err != nil {
				t.Error(err)
			}
			readings.Add(1)
			return nil, nil
		}})
		h := Handler(page)
		for range 3 {
			for range 20 {
				data(t, h)
			}
			<-time.After(interval)
		}
		if n := readings.Load(); n != 3 {
			t.Errorf("%d readings in three intervals, want 3", n)
		}
	})
}

func TestSeriesAreRows(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	parked := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "parked", Help: "h"}, []string{"reason", "projection"})
	r.MustRegister(parked)
	parked.WithLabelValues("missing", "orders").Set(2)
	parked.WithLabelValues("history", "orders").Set(0)
	parked.WithLabelValues("expression", "users").Set(5)
	recorder := NewRecorder(r, nil)
	recorder.record(time.Now())
	format := func(v float64) string { return strings.Repeat("|", int(math.Round(v))) }
	rows, err := recorder.Series("parked", []string{"projection", "reason"}, format, true)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || strings.Join(rows[0].Cells, " ") != "users expression |||||" || strings.Join(rows[1].Cells, " ") != "orders missing ||" || !rows[0].Alarm {
		t.Errorf("rows: %+v", rows)
	}
}
