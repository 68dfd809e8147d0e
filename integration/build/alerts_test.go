package build_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

const chartFolder = "../../charts/penstock"

// healthy has the series of a healthy release, a sample a minute. The lines are in the form
// of Prometheus's own tests of rules: a value, its change, and how often it changes.
const healthy = `
penstock_publisher_leader{pod="publisher-0"} 1x240
penstock_publisher_leader{pod="publisher-1"} 0x240
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 1x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 1x240
penstock_publisher_stream_shard_wait_seconds{pod="publisher-0"} 1x240
penstock_publisher_events_scanned_total{pod="publisher-0"} 1000x240
penstock_publisher_source_missing{pod="publisher-0"} 0x240
penstock_publisher_source_mutations_total{pod="publisher-0",operation="update"} 0x240
penstock_publisher_scans_total{pod="publisher-0",reason="history_lost"} 0x240
penstock_publisher_checkpoint_age_seconds{pod="publisher-0"} 1x240
penstock_publisher_checkpoint_saves_total{pod="publisher-0",result="fenced"} 0x240
penstock_publisher_terms_total{pod="publisher-0",reason="lease"} 1x240
penstock_publisher_send_errors_total{pod="publisher-0",fault="connection"} 3x240
penstock_publisher_throttled_total{pod="publisher-0"} 5x240
penstock_publisher_topic_refused{pod="publisher-0"} 0x240
penstock_publisher_health_conditions{pod="publisher-0",condition="broker-unreachable"} 0x240
penstock_publisher_delayed_seconds{pod="publisher-0"} 0x240
penstock_publisher_quarantined_total{pod="publisher-0",reason="refused"} 0x240
penstock_publisher_quarantine_records{pod="publisher-0"} 0x240
penstock_publisher_oplog_runway_seconds{pod="publisher-0"} 90000x240
penstock_publisher_oplog_complete{pod="publisher-0"} 0x240
process_start_time_seconds{pod="publisher-0"} 1000x240
penstock_projector_sessions_active{pod="projector-0"} 5x240
penstock_projector_session_slots{pod="projector-0"} 128x240
penstock_projector_backlog_sessions{pod="projector-0"} 5x240
penstock_projector_events_total{pod="projector-0"} 0+100x240
penstock_projector_unreadable{pod="projector-0"} 0x240
penstock_projector_event_age_seconds_bucket{pod="projector-0",le="1"} 0+100x240
penstock_projector_event_age_seconds_bucket{pod="projector-0",le="600"} 0+100x240
penstock_projector_event_age_seconds_bucket{pod="projector-0",le="+Inf"} 0+100x240
penstock_projector_parked_aggregates{pod="projector-0",projection="orders",reason="rejected"} 0x240
penstock_projector_view_documents_near_limit_total{pod="projector-0",projection="orders"} 0x240
penstock_projector_invalid_messages_total{pod="projector-0"} 0x240
penstock_projector_health_conditions{pod="projector-0",condition="broker-unreachable"} 0x240
penstock_projector_job_progress_age_seconds{pod="projector-0",kind="build"} 1x240
penstock_projector_generation_live{pod="projector-0",projection="orders"} 1x240
penstock_projector_verified_through_timestamp_seconds{pod="projector-0",projection="orders"} 0+60x240
penstock_projector_reconciled_aggregates_total{pod="projector-0",projection="orders"} 0x240
process_start_time_seconds{pod="projector-0"} 1000x240
`

// alertCases have what differs from a healthy release, and the alerts that fire. A line
// replaces the series with its name and labels. A line without values removes that series.
var alertCases = []struct{ name, series, fire string }{
	{"nothing is wrong", ``, ""},
	{"no publisher leads", `penstock_publisher_leader{pod="publisher-0"} 0x240`, "PenstockPublisherNoLeader"},
	{"two publishers lead", `penstock_publisher_leader{pod="publisher-1"} 1x240`, "PenstockPublisherTwoLeaders"},
	{"another publisher takes the checkpoint", `penstock_publisher_checkpoint_saves_total{pod="publisher-0",result="fenced"} 0+1x240`, "PenstockPublisherTwoLeaders"},
	{"terms end", `penstock_publisher_terms_total{pod="publisher-0",reason="lease"} 1+1x240`, "PenstockPublisherTermsChange"},
	{"publishers are rolled out", `penstock_publisher_terms_total{pod="publisher-0",reason="stopping"} 1+1x240`, ""},
	{"the stream falls behind", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 0x215 0+60x25
penstock_publisher_stream_caught_up{pod="publisher-0"} 1x215 0x25`, "PenstockPublisherStreamLag"},
	{"the stream catches up after it had no leader", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 0x215 7200-300x25
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240`, ""},
	{"the stream catches up", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 90000-60x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240`, ""},
	{"the stream catches up beside a standby", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 90000-60x240
penstock_publisher_stream_lag_seconds{pod="publisher-1"} 0x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240`, ""},
	{"the stream does not catch up", `
penstock_publisher_stream_lag_seconds{pod="publisher-1"} 0x240
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 100+60x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240`, "PenstockPublisherCatchUpStalled"},
	{"the event store is scanned", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 100+60x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240
penstock_publisher_events_scanned_total{pod="publisher-0"} 0+1000x240`, ""},
	{"a leader has begun no term", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 0x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240`, ""},
	{"the events collection is missing", `
penstock_publisher_stream_lag_seconds{pod="publisher-0"} 100+60x240
penstock_publisher_stream_caught_up{pod="publisher-0"} 0x240
penstock_publisher_source_missing{pod="publisher-0"} 1x240`, "PenstockPublisherSourceMissing"},
	{"a shard is idle", `penstock_publisher_stream_shard_wait_seconds{pod="publisher-0"} 60x240`, "PenstockPublisherShardIdle"},
	{"the checkpoint stands", `penstock_publisher_checkpoint_age_seconds{pod="publisher-0"} 0+60x240`, "PenstockPublisherCheckpointOld"},
	{"sends fail", `penstock_publisher_send_errors_total{pod="publisher-0",fault="connection"} 0+60x240`, "PenstockPublisherSendErrors"},
	{"the topic refuses", `penstock_publisher_topic_refused{pod="publisher-0"} 1x240`, "PenstockPublisherTopicRefuses"},
	{"no broker for the publisher", `penstock_publisher_health_conditions{pod="publisher-0",condition="broker-unreachable"} 1x240`, "PenstockPublisherBrokerUnreachable"},
	{"a key waits", `penstock_publisher_delayed_seconds{pod="publisher-0"} 0+60x240`, "PenstockPublisherKeysDelayed"},
	{"the namespace throttles", `penstock_publisher_throttled_total{pod="publisher-0"} 0+1x240`, "PenstockPublisherThrottled"},
	{"an event goes to the quarantine", `
penstock_publisher_quarantined_total{pod="publisher-0",reason="refused"} 0x60 1x180
penstock_publisher_quarantine_records{pod="publisher-0"} 0x60 1x180`, "PenstockPublisherQuarantined PenstockPublisherQuarantineNotEmpty"},
	{"the first scrape finds a quarantined event", `penstock_publisher_quarantined_total{pod="publisher-2",reason="refused"} _x60 1x180`, "PenstockPublisherQuarantined"},
	{"the oplog is short", `penstock_publisher_oplog_runway_seconds{pod="publisher-0"} 600x240`, "PenstockPublisherOplogRunway"},
	{"the oplog is short and complete", `
penstock_publisher_oplog_runway_seconds{pod="publisher-0"} 600x240
penstock_publisher_oplog_complete{pod="publisher-0"} 1x240`, ""},
	{"an event is changed in place", `penstock_publisher_source_mutations_total{pod="publisher-0",operation="update"} 0x60 1x180`, "PenstockPublisherSourceChanged"},
	{"the oplog lost the checkpoint", `penstock_publisher_scans_total{pod="publisher-0",reason="history_lost"} 0x60 1x180`, "PenstockPublisherHistoryLost"},
	{"a publisher restarts", `process_start_time_seconds{pod="publisher-0"} 1000+600x240`, "PenstockPublisherRestarts"},
	{"a publisher needs too much memory", `
kube_pod_container_status_restarts_total{pod="publisher-0"} 0x60 1x180
kube_pod_container_status_last_terminated_reason{pod="publisher-0",reason="OOMKilled"} _x60 1x180`, "PenstockPublisherOutOfMemory"},

	{"no projector runs", `
penstock_projector_sessions_active{pod="projector-0"}
penstock_projector_session_slots{pod="projector-0"}
penstock_projector_backlog_sessions{pod="projector-0"}`, "PenstockProjectorDown"},
	{"the projector stands still", `penstock_projector_events_total{pod="projector-0"} 1000x240`, "PenstockProjectorStandsStill"},
	{"the projector has nothing to do", `
penstock_projector_events_total{pod="projector-0"} 1000x240
penstock_projector_backlog_sessions{pod="projector-0"} 0x240`, ""},
	{"the backlog is unknown", `penstock_projector_backlog_sessions{pod="projector-0"}`, "PenstockProjectorBacklogUnknown"},
	{"no message is an event", `penstock_projector_unreadable{pod="projector-0"} 1x240`, "PenstockProjectorUnreadable"},
	{"events are late", `penstock_projector_event_age_seconds_bucket{pod="projector-0",le="1"} 0+50x240`, "PenstockProjectorLate"},
	{"an aggregate is parked", `penstock_projector_parked_aggregates{pod="projector-0",projection="orders",reason="rejected"} 1x240`, "PenstockProjectorParked"},
	{"events are missing", `penstock_projector_parked_aggregates{pod="projector-0",projection="orders",reason="missing"} 1x240`, "PenstockProjectorEventsMissing"},
	{"read models are refused", `penstock_projector_parked_aggregates{pod="projector-0",projection="orders",reason="unavailable"} 1x240`, "PenstockProjectorStoreUnavailable"},
	{"a document of a view is large", `penstock_projector_view_documents_near_limit_total{pod="projector-0",projection="orders"} 0x60 1x180`, "PenstockProjectorViewNearLimit"},
	{"a message is not an event", `penstock_projector_invalid_messages_total{pod="projector-0"} 0x60 1x180`, "PenstockProjectorInvalidMessages"},
	{"no broker for the projector", `penstock_projector_health_conditions{pod="projector-0",condition="broker-unreachable"} 1x240`, "PenstockProjectorBrokerUnreachable"},
	{"a job stands", `penstock_projector_job_progress_age_seconds{pod="projector-0",kind="build"} 0+60x240`, "PenstockProjectorJobStuck"},
	{"a rebuild has failed", `penstock_projector_generation_building{pod="projector-0",projection="orders",state="failed"} 2x240`, "PenstockProjectorRebuildFailed"},
	{"a rebuild is not verified", `penstock_projector_generation_building{pod="projector-0",projection="orders",state="verifying"} 2x240`, "PenstockProjectorRebuildWaits"},
	{"no job builds", `penstock_projector_generation_building{pod="projector-0",projection="orders",state="building"} 2x240`, "PenstockProjectorRebuildWaits"},
	{"a job builds", `
penstock_projector_generation_building{pod="projector-0",projection="orders",state="building"} 2x240
penstock_projector_jobs{pod="projector-0",kind="build",state="running"} 1x240`, ""},
	{"a promotion does not end", `penstock_projector_generation_building{pod="projector-0",projection="orders",state="promoting"} 2x20 _x220`, "PenstockProjectorPromotionStuck"},
	{"a comparison is old", `penstock_projector_verified_through_timestamp_seconds{pod="projector-0",projection="orders"} 60x240`, "PenstockProjectorNotVerified"},
	{"there was no comparison", `penstock_projector_verified_through_timestamp_seconds{pod="projector-0",projection="orders"}`, "PenstockProjectorNotVerified"},
	{"the broker lost events", `penstock_projector_reconciled_aggregates_total{pod="projector-0",projection="orders"} 0x60 1x180`, "PenstockProjectorEventsLost"},
	{"a projector restarts", `process_start_time_seconds{pod="projector-0"} 1000+600x240`, "PenstockProjectorRestarts"},
	{"a projector needs too much memory", `
kube_pod_container_status_restarts_total{pod="projector-0"} 0x60 1x180
kube_pod_container_status_last_terminated_reason{pod="projector-0",reason="OOMKilled"} _x60 1x180`, "PenstockProjectorOutOfMemory"},
}

// TestEachAlertFiresInItsCaseAndInNoOther evaluates the chart's alerts over recorded series
// with Prometheus's own engine.
func TestEachAlertFiresInItsCaseAndInNoOther(t *testing.T) {
	t.Parallel()
	rules := alertRules(t)
	fired := map[string]bool{}
	for _, test := range alertCases {
		store := seriesStore(t, healthy, test.series)
		var fires []string
		for _, rule := range rules {
			if rule.fires(t, store) {
				fires = append(fires, rule.Alert)
				fired[rule.Alert] = true
			}
		}
		want := strings.Fields(test.fire)
		slices.Sort(want)
		slices.Sort(fires)
		if !slices.Equal(fires, want) {
			t.Errorf("%s: the alerts %q fire, want %q", test.name, fires, want)
		}
	}
	for _, rule := range rules {
		if !fired[rule.Alert] {
			t.Errorf("%s fires in no case", rule.Alert)
		}
	}
}

type alertRule struct {
	Alert, Expr string
	For         time.Duration
}

// alertRules renders the alerts with the chart's own values. The pods of the release are
// named publisher-N and projector-N.
func alertRules(t *testing.T) []alertRule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	root := map[string]any{"Values": values, "Release": map[string]string{"Name": "shop", "Namespace": "shop"}}
	functions := template.FuncMap{
		"int64": func(n any) (n64 int64) { _, _ = fmt.Sscan(fmt.Sprint(n), &n64); return n64 },
		"divf":  func(a, b int) float64 { return float64(a) / float64(b) },
		"quote": func(s string) string { return fmt.Sprintf("%q", s) },
		"default": func(otherwise string, value any) any {
			if value == nil {
				return otherwise
			}
			return value
		},
		"include": func(name string, context any) string {
			if name == "penstock.promSelector" {
				return fmt.Sprintf(`pod=~"%s-.*"`, context.(map[string]any)["component"])
			}
			return "true"
		},
	}
	templates, err := template.New("").Funcs(functions).ParseFiles(filepath.Join(chartFolder, "templates", "_alerts.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	var rules []alertRule
	for _, component := range []string{"publisher", "projector"} {
		var out strings.Builder
		if err := templates.ExecuteTemplate(&out, "penstock.alerts."+component, map[string]any{"root": root, "component": component}); err != nil {
			t.Fatal(err)
		}
		var of []alertRule
		if err := yaml.Unmarshal([]byte(out.String()), &of); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, of...)
	}
	return rules
}

// fires reports whether the expression has a result with the same labels for long enough.
func (r *alertRule) fires(t *testing.T, store storage.Queryable) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	query, err := engine.NewRangeQuery(t.Context(), store, promql.NewPrometheusQueryOpts(false, 0), r.Expr, time.Unix(0, 0), time.Unix(0, 0).Add(4*time.Hour), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	defer query.Close()
	result, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	for _, series := range result {
		since := series.Floats[0].T
		for i, point := range series.Floats {
			if i > 0 && point.T > series.Floats[i-1].T+time.Minute.Milliseconds() {
				since = point.T
			}
			if point.T-since >= r.For.Milliseconds() {
				return true
			}
		}
	}
	return false
}

// seriesStore has the series of texts, a sample a minute. Later texts replace those of earlier ones.
func seriesStore(t *testing.T, texts ...string) storage.Queryable {
	t.Helper()
	series := map[string]storage.Series{}
	for line := range strings.Lines(strings.Join(texts, "\n")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		of, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{at: int64(i) * time.Minute.Milliseconds(), value: v.Value})
			}
		}
		series[of.String()] = storage.NewListSeries(of, samples)
	}
	all := slices.Collect(maps.Values(series))
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{}
		for _, s := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
				set.rest = append(set.rest, s)
			}
		}
		return set
	}}}
}

// sample is a number at a time in milliseconds.
type sample struct {
	chunks.Sample
	at    int64
	value float64
}

func (s sample) T() int64               { return s.at }
func (s sample) F() float64             { return s.value }
func (sample) ST() int64                { return 0 }
func (sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// seriesSet iterates over series.
type seriesSet struct {
	rest []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series              { return s.at }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }
