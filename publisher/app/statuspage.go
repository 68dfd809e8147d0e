package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/statuspage"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// stages are the steps of an event through the publisher.
func stages() []statuspage.Stage {
	return []statuspage.Stage{
		{Name: "Event store", About: "The change stream of the leader, or a scan after the oplog was lost.", Figures: []statuspage.Figure{
			{Name: "events read", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_publisher_events_read_total")},
			{Name: "events scanned", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_publisher_events_scanned_total")},
			// Between two terms, and on a standby, nobody reads here, which is not "0 s behind".
			{Name: "stream behind", Unit: statuspage.Seconds, Read: whileLeading(statuspage.Value("penstock_publisher_stream_lag_seconds")), Alarm: statuspage.Above(60)},
			{Name: "quarantined", Read: statuspage.Value("penstock_publisher_quarantine_records"), Alarm: statuspage.Above(0)},
		}},
		{Name: "Lanes", About: "One for each session key: one unacknowledged send at a time.", Figures: []statuspage.Figure{
			{Name: "events in flight", Read: statuspage.Value("penstock_publisher_inflight_events")},
			{Name: "in flight", Unit: statuspage.Bytes, Read: statuspage.Value("penstock_publisher_inflight_bytes")},
			{Name: "delayed keys", Read: statuspage.Value("penstock_publisher_delayed_keys"), Alarm: statuspage.Above(0)},
		}},
		{Name: "Topic", About: "What the broker has accepted.", Figures: []statuspage.Figure{
			{Name: "published", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_publisher_events_published_total")},
			{Name: "send p50", Unit: statuspage.Seconds, Read: statuspage.Quantile(0.5, "penstock_publisher_send_duration_seconds")},
			{Name: "send p99", Unit: statuspage.Seconds, Read: statuspage.Quantile(0.99, "penstock_publisher_send_duration_seconds")},
			{Name: "throttled", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_publisher_throttled_total"), Alarm: statuspage.Above(0)},
		}},
		{Name: "Checkpoint", About: "The resume token, saved behind what the broker accepted.", Figures: []statuspage.Figure{
			{Name: "last moved", Unit: statuspage.Seconds, Read: whileLeading(statuspage.Value("penstock_publisher_checkpoint_age_seconds")), Alarm: statuspage.Above(60)},
			{Name: "events behind it", Read: whileLeading(statuspage.Value("penstock_publisher_checkpoint_window_events"))},
			// Only a lost position is an alarm. The chart's alert warns earlier.
			{
				Name: "runway of the oplog", Unit: statuspage.Seconds, Read: statuspage.Value("penstock_publisher_oplog_runway_seconds"),
				Alarm: statuspage.Below(1), Unless: statuspage.Value("penstock_publisher_oplog_complete"),
			},
		}},
	}
}

// whileLeading is a reading that only the leader has.
func whileLeading(reading statuspage.Reading) statuspage.Reading {
	return statuspage.While("penstock_publisher_leader", reading)
}

// keptTerms is how many terms of this process the page lists.
const keptTerms = 10

// termLog records what this process has seen of the election. It is safe for concurrent
// use.
type termLog struct {
	mu     sync.Mutex
	leader string
	since  time.Time
	terms  []leader.TermEnd
}

func (l *termLog) newLeader(identity string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader, l.since = identity, time.Now()
}

func (l *termLog) termEnded(t leader.TermEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms = append(l.terms, t)
	if len(l.terms) > keptTerms {
		l.terms = l.terms[1:]
	}
}

// endedTerms returns the ended terms of this process, the last one first.
func (l *termLog) endedTerms(context.Context) ([]statuspage.Row, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make([]statuspage.Row, 0, len(l.terms))
	for i := len(l.terms) - 1; i >= 0; i-- {
		t := l.terms[i]
		cause := ""
		if t.Err != nil {
			cause = t.Err.Error()
		}
		rows = append(rows, statuspage.Row{
			Cells: []string{cli.Time(t.Began), poll.Duration(t.Lasted), t.Reason, cause},
			Alarm: t.Err != nil && !errors.Is(t.Err, context.Canceled) && !errors.Is(t.Err, leader.ErrStopping),
		})
	}
	return rows, nil
}

// now returns who leads.
func (l *termLog) now(leads bool, epoch string) []statuspage.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	row := func(name, value string) statuspage.Row { return statuspage.Row{Cells: []string{name, value}} }
	role := "stands by"
	if leads {
		role = "leads"
	}
	rows := []statuspage.Row{row("this process", role), row("last epoch of this process", epoch)}
	if l.leader != "" {
		rows = append(rows, row("leader", l.leader), row("seen since", cli.Time(l.since)))
	}
	return rows
}

// shownQuarantined bounds the records that the page reads.
const shownQuarantined = 200

// quarantinedRows groups the records of the quarantine by reason, each with its oldest event.
func (p *Publisher) quarantinedRows(ctx context.Context) ([]statuspage.Row, error) {
	state := p.state.Load()
	if state == nil {
		return nil, errors.New("this process has not connected to MongoDB yet")
	}
	records, err := quarantine.NewRecords(state, p.config.Stream.Name).List(ctx, quarantine.Filter{}, shownQuarantined)
	// Records that cannot be read are among those of the limit.
	more := err != nil || len(records) == shownQuarantined
	if err := p.omitted.Report(err, p.logger); err != nil {
		return nil, err
	}
	counts := map[event.Reason]int{}
	for _, r := range records {
		counts[r.Reason]++
	}
	var rows []statuspage.Row
	for _, r := range records {
		n := counts[r.Reason]
		if n == 0 {
			continue // the row of this reason exists
		}
		counts[r.Reason] = 0
		example := "document " + r.Document
		if r.AggregateID != "" && r.EventID != nil {
			example = fmt.Sprintf("%s, event %d", r.AggregateID, *r.EventID)
		}
		shown := strconv.Itoa(n)
		if more {
			shown = "at least " + shown
		}
		rows = append(rows, statuspage.Row{
			Cells: []string{string(r.Reason), shown, example, cmp.Or(r.Detail, "field "+r.Field), "correct the event, then: publisher republish --quarantine --reason " + string(r.Reason)},
			Alarm: true,
		})
	}
	return rows, nil
}

// statusPage makes the status page, and the loop that records its figures.
func (p *Publisher) statusPage(h *health.Health) (http.Handler, func(context.Context)) {
	recorder := statuspage.NewRecorder(p.registry, stages())
	count := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	read := func(metric string) float64 {
		return statuspage.Count(metric)(recorder.Families(), nil, 0)
	}
	events := p.config.MongoDB.Events()
	page := statuspage.Page{
		Service: "publisher", Instance: p.config.Election.Host(), Version: cli.Version(),
		Pipeline: fmt.Sprintf("%s.%s → topic %s of %s", events.Database, events.Collection, p.config.ServiceBus.Topic, p.config.ServiceBus.Host()),
		Recorder: recorder,
		Verdict:  h.Verdict,
		Tables: []statuspage.Source{
			{Name: "Leadership of stream " + p.config.Stream.Name, Columns: []string{"", ""}, Rows: func(context.Context) ([]statuspage.Row, error) {
				return p.terms.now(read("penstock_publisher_leader") > 0, count(read("penstock_publisher_epoch"))), nil
			}},
			{
				Name: "Last terms of this process", Columns: []string{"began", "lasted", "why it ended", "error"},
				Empty: "No term of this process has ended.", Rows: p.terms.endedTerms,
			},
			{
				Name: "Quarantined events", Columns: []string{"reason", "events", "for example", "its error", "to do"},
				Empty: "No event is in the quarantine.", Rows: p.quarantinedRows,
			},
			{
				Name: "Failed sends of this process", Columns: []string{"fault", "sends"},
				Empty: "No send has failed.",
				Rows:  recorder.Series("penstock_publisher_send_errors_total", []string{"fault"}, count, false),
			},
			{
				Name: "Changes of the event store that break the contract", Columns: []string{"operation", "changes"},
				Empty: "No event was changed or removed.",
				Rows:  recorder.Series("penstock_publisher_source_mutations_total", []string{"operation"}, count, true),
			},
		},
	}
	return statuspage.Handler(page), recorder.Run
}
