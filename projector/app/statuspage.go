package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/statuspage"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// stages are the steps of an event through the projector.
func stages() []statuspage.Stage {
	return []statuspage.Stage{
		{Name: "Subscription", About: "What waits at the broker, for all pods.", Figures: []statuspage.Figure{
			{Name: "sessions with messages", Read: statuspage.Value("penstock_projector_backlog_sessions")},
			{Name: "dead letters", Read: statuspage.Count("penstock_projector_dead_letters"), Alarm: statuspage.Above(0)},
		}},
		{Name: "Sessions", About: "An aggregate, or a bucket of them, belongs to one pod at a time.", Figures: []statuspage.Figure{
			{Name: "slots used", Read: statuspage.Value("penstock_projector_sessions_active"), Of: statuspage.Value("penstock_projector_session_slots")},
			{Name: "accepted", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_projector_session_accepts_total", "result", "accepted")},
		}},
		{Name: "Projections", About: "Each event is folded into every projection, in order.", Figures: []statuspage.Figure{
			{Name: "applied", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_projector_event_age_seconds")},
			{Name: "event age p50", Unit: statuspage.Seconds, Read: statuspage.Quantile(0.5, "penstock_projector_event_age_seconds")},
			{Name: "event age p99", Unit: statuspage.Seconds, Read: statuspage.Quantile(0.99, "penstock_projector_event_age_seconds")},
			{Name: "sessions waiting for a store", Read: statuspage.Value("penstock_projector_sessions_waiting"), Alarm: statuspage.Above(0)},
		}},
		{Name: "Read models", About: "Guarded writes, in groups.", Figures: []statuspage.Figure{
			{Name: "group commits", Unit: statuspage.PerSec, Read: statuspage.Rate("penstock_projector_write_duration_seconds")},
			{Name: "write p50", Unit: statuspage.Seconds, Read: statuspage.Quantile(0.5, "penstock_projector_write_duration_seconds")},
			{Name: "write p99", Unit: statuspage.Seconds, Read: statuspage.Quantile(0.99, "penstock_projector_write_duration_seconds")},
			{Name: "parked aggregates", Read: statuspage.Count("penstock_projector_parked_aggregates"), Alarm: statuspage.Above(0)},
		}},
	}
}

// stateTables reads the data that all pods share from the state database.
type stateTables struct {
	recorder *statuspage.Recorder
	// past is set when the stores are open.
	past atomic.Pointer[upkeep]
}

// errNotOpen is shown instead of a table until the stores are open.
var errNotOpen = errors.New("this process has not connected to MongoDB yet")

// rows adapts the reader of a table that needs the stores.
func (s *stateTables) rows(read func(context.Context, *upkeep) ([]statuspage.Row, error)) func(context.Context) ([]statuspage.Row, error) {
	return func(ctx context.Context) ([]statuspage.Row, error) {
		past := s.past.Load()
		if past == nil {
			return nil, errNotOpen
		}
		return read(ctx, past)
	}
}

// pods lists the running projectors of this pipeline.
func (s *stateTables) pods(ctx context.Context, past *upkeep) ([]statuspage.Row, error) {
	alive, err := past.registry.Alive(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(alive, func(a, b catalog.Registration) int { return cmp.Compare(a.Pod, b.Pod) })
	rows := make([]statuspage.Row, len(alive))
	for i, r := range alive {
		name := r.Pod
		if name == past.pod {
			name += " (this one)"
		}
		serves := make([]string, len(r.Serves))
		for j, g := range r.Serves {
			serves[j] = fmt.Sprintf("%s %d", g.Projection, g.Generation)
		}
		slices.Sort(serves)
		paused := make([]string, len(r.Paused))
		for j, p := range r.Paused {
			paused[j] = p.Projection
		}
		rows[i] = statuspage.Row{Cells: []string{name, cli.Time(r.StartedAt), strings.Join(serves, ", "), strings.Join(paused, ", ")}}
	}
	return rows, nil
}

// generations lists the projections with their generations.
func (s *stateTables) generations(ctx context.Context, past *upkeep) ([]statuspage.Row, error) {
	through := make(map[string]string)
	verified, err := s.recorder.Series("penstock_projector_verified_through_timestamp_seconds", []string{"projection"}, func(v float64) string {
		return cli.Time(time.Unix(int64(v), 0))
	}, false)(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range verified {
		through[r.Cells[0]] = r.Cells[1]
	}
	entries := past.follower.Projections()
	rows := make([]statuspage.Row, 0, len(entries))
	for name, e := range entries {
		live, building := "none", ""
		if e.Live != nil {
			live = fmt.Sprintf("%d in %s", e.Live.Generation, e.Live.Collection)
		}
		if b := e.Building; b != nil {
			building = fmt.Sprintf("%d %s", b.Generation, b.State)
			if b.Reason != "" {
				building += ": " + b.Reason
			}
		}
		rows = append(rows, statuspage.Row{
			Cells: []string{name, e.Status(), live, building, through[name]},
			Alarm: e.Building != nil && e.Building.State == catalog.Failed,
		})
	}
	slices.SortFunc(rows, func(a, b statuspage.Row) int { return cmp.Compare(a.Cells[0], b.Cells[0]) })
	return rows, nil
}

// parked lists the kinds of parked aggregates, each with one aggregate and its error.
func (*stateTables) parked(ctx context.Context, past *upkeep) ([]statuspage.Row, error) {
	var rows []statuspage.Row
	for _, k := range past.parkedKinds() {
		example, err := past.parked.Example(ctx, k.Projections[0], k.Reason)
		if err != nil {
			return nil, err
		}
		reason := k.Reason
		if k.Building {
			reason += " (building)"
		}
		rows = append(rows, statuspage.Row{
			Cells: []string{reason, k.Counts(), fmt.Sprintf("%s, event %d", example.AggregateID, example.EventID), example.Error, k.Remedy()},
			Alarm: true,
		})
	}
	return rows, nil
}

// jobs lists the jobs that have not ended, and those that failed.
func (s *stateTables) jobs(ctx context.Context, past *upkeep) ([]statuspage.Row, error) {
	found, err := past.jobs.List(ctx, job.Filter{States: []job.State{job.Planning, job.Running, job.Failed}})
	if err != nil {
		return nil, err
	}
	rows := make([]statuspage.Row, len(found))
	for i, j := range found {
		rows[i] = statuspage.Row{
			Cells: []string{j.ID, string(j.Kind), string(j.State), fmt.Sprintf("%d of %d", j.RangesDone, j.Ranges), j.Reason},
			Alarm: j.State == job.Failed,
		}
		if j.State != job.Failed {
			done := 0.0
			if j.Ranges > 0 {
				done = float64(j.RangesDone) / float64(j.Ranges)
			}
			rows[i].Progress = &done
		}
	}
	return rows, nil
}

// statusPage makes the status page, and the tables that read the state database.
func (p *Projector) statusPage(h *health.Health) (http.Handler, *stateTables) {
	recorder := statuspage.NewRecorder(p.registry, stages())
	state := &stateTables{recorder: recorder}
	count := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return statuspage.Handler(statuspage.Page{
		Service: "projector", Instance: p.host, Version: cli.Version(),
		Pipeline: fmt.Sprintf("subscription %s of topic %s of %s → database %s", p.config.ServiceBus.Subscription, p.config.ServiceBus.Topic, p.config.ServiceBus.Host(), p.config.MongoDB.ReadModels().Database),
		Recorder: recorder,
		Verdict:  h.Verdict,
		Tables: []statuspage.Source{
			{
				Name: "Projections", Columns: []string{"projection", "state", "live generation", "building", "complete through"},
				Empty: "There is no projection in the catalog.", Rows: state.rows(state.generations),
			},
			{
				Name: "Jobs", Columns: []string{"job", "kind", "state", "ranges done", "reason"},
				Empty: "No job is running.", Rows: state.rows(state.jobs),
			},
			{
				Name: "Parked aggregates", Columns: []string{"reason", "aggregates by projection", "for example", "its error", "to do"},
				Empty: "No aggregate is parked.", Rows: state.rows(state.parked),
			},
			{
				Name: "Dead letters", Columns: []string{"reason", "messages"},
				Empty: "The dead-letter queue is empty, or was not counted yet.",
				Rows:  recorder.Series("penstock_projector_dead_letters", []string{"reason"}, count, true),
			},
			{
				Name: "Pods", Columns: []string{"pod", "started", "writes generations", "paused for a promotion"},
				Empty: "No pod is registered.", Rows: state.rows(state.pods),
			},
		},
	}), state
}
