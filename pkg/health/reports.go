package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// reportsName is the name of the collection of reports in the database of the state.
const reportsName = "process_health"

const (
	// reportInterval is the time between two reports of a process, and reportAge how long a
	// report counts.
	reportInterval = 5 * time.Second
	reportAge      = 30 * time.Second
	// reportKept is how long the report of a process that was killed is kept.
	reportKept = time.Hour
	// reportTimeout bounds one request.
	reportTimeout = 5 * time.Second
	// withdrawTimeout bounds the removal of a report when its process stops.
	withdrawTimeout = time.Second
)

// Report is the verdict of a process on itself.
type Report struct {
	Process string
	Verdict Verdict
	// Figures are the numbers of [Health.Figure].
	Figures map[string]float64
	// Age is the time since the report.
	Age time.Duration
}

// Reports are the verdicts of all processes of a service, in the database of the state, for
// commands that ask no process.
type Reports struct {
	collection    *mongo.Collection
	service, name string
}

// NewReports returns the reports of a service. name distinguishes services of one kind in a
// database: the stream, or the pipeline.
func NewReports(state *mongo.Database, service, name string) *Reports {
	return &Reports{state.Collection(reportsName), service, name}
}

// Run stores the verdict of this process every 5 s until ctx ends, and removes it then. The
// first of consecutive failures is logged.
func (r *Reports) Run(ctx context.Context, process string, h *Health, logger zerolog.Logger) {
	id := bson.D{{Key: "service", Value: r.service}, {Key: "name", Value: r.name}, {Key: "process", Value: process}}
	failing, cleared := false, false
	poll.Every(ctx, reportInterval, func() {
		err := r.put(ctx, id, h)
		if err != nil && !failing && ctx.Err() == nil {
			logger.Warn().Err(err).Msg("health not reported to the state database; \"status\" does not show the conditions of this process. Retrying")
		}
		failing = err != nil
		if err == nil && !cleared {
			cleared = r.clear(ctx) == nil
		}
	})
	ctx, cancel := mongox.Timeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	// A report that stays expires.
	_, _ = r.collection.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}})
}

func (r *Reports) put(ctx context.Context, id bson.D, h *Health) error {
	verdict, figures := h.Verdict(), h.numbers()
	ctx, cancel := mongox.Timeout(ctx, reportTimeout)
	defer cancel()
	_, err := r.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "verdict", Value: mongox.Literal(verdict)}, {Key: "figures", Value: mongox.Literal(figures)}, {Key: "at", Value: mongox.Now},
	}}}}, options.UpdateOne().SetUpsert(true))
	return mongox.Explain(ctx, err)
}

// clear removes the reports of processes that were killed.
func (r *Reports) clear(ctx context.Context) error {
	ctx, cancel := mongox.Timeout(ctx, reportTimeout)
	defer cancel()
	_, err := r.collection.DeleteMany(ctx, r.filter("$lt", reportKept))
	return err
}

// filter selects the reports of the service whose time compares with an age in that way.
func (r *Reports) filter(comparison string, age time.Duration) bson.D {
	return bson.D{
		{Key: "_id.service", Value: r.service}, {Key: "_id.name", Value: r.name},
		{Key: "$expr", Value: bson.D{{Key: comparison, Value: bson.A{"$at", mongox.FromNow(-age)}}}},
	}
}

// List returns the reports of the running processes.
func (r *Reports) List(ctx context.Context) ([]Report, error) {
	ctx, cancel := mongox.Timeout(ctx, reportTimeout)
	defer cancel()
	type storedReport struct {
		ID struct {
			Process string `bson:"process"`
		} `bson:"_id"`
		Verdict Verdict            `bson:"verdict"`
		Figures map[string]float64 `bson:"figures"`
		AgeMS   int64              `bson:"ageMs"`
	}
	stored, err := mongox.All[storedReport](ctx, r.collection)(r.collection.Find(ctx, r.filter("$gt", reportAge), options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetProjection(bson.D{
		{Key: "verdict", Value: 1}, {Key: "figures", Value: 1}, {Key: "ageMs", Value: bson.D{{Key: "$subtract", Value: bson.A{mongox.Now, "$at"}}}},
	})))
	if err != nil {
		return nil, fmt.Errorf("read the health of the processes: %w", mongox.Explain(ctx, err))
	}
	reports := make([]Report, len(stored))
	for i, s := range stored {
		reports[i] = Report{Process: s.ID.Process, Verdict: s.Verdict, Figures: s.Figures, Age: time.Duration(s.AgeMS) * time.Millisecond}
	}
	return reports, nil
}

// Together makes the verdict on a service of the conditions that a command has found, and of
// the reports of the processes. A condition of several processes is named once, with the
// processes. The service is [NotReady] only if no process is ready. own are the names of the
// conditions that the command has looked for itself: reports of them are older, and left out.
func Together(found []Condition, reports []Report, own ...string) Verdict {
	all := slices.Clone(found)
	ready := len(reports) == 0 || slices.ContainsFunc(reports, func(r Report) bool { return r.Verdict.State != NotReady })
	from := map[[2]string][]string{}
	for _, r := range reports {
		for _, c := range r.Verdict.Conditions {
			if slices.Contains(own, c.Name) {
				continue
			}
			if ready && c.State == NotReady {
				c.State = Degraded
			}
			from[c.key()] = append(from[c.key()], r.Process)
			all = append(all, c)
		}
	}
	v := Judge(all)
	for i, c := range v.Conditions {
		mine := slices.ContainsFunc(found, func(f Condition) bool { return f.key() == c.key() })
		if by := from[c.key()]; !mine && len(by) > 0 {
			v.Conditions[i].Text += " (reported by " + strings.Join(by, ", ") + ")"
		}
	}
	return v
}
