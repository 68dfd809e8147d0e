package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/verify"
)

// resubmission brings the aggregates of dead letters up to date from the event store. It
// verifies each live read model of an aggregate, and repairs it under the guards of every
// writer. So the result is proven even if event ids only increase, where the watermark does
// not show whether an earlier event took effect. It stores nothing outside the read models,
// so an interrupted resubmission can be repeated.
type resubmission struct {
	events *eventstore.Reader
	worker *verify.Worker
	found  *foundMemory
	// live has the live generations of the subscription's projections, by name.
	live map[string]int64
	// markers are those of the parked list.
	markers *park.Store
}

// newResubmission reads from the catalog which projections are live.
func newResubmission(ctx context.Context, e *Environment, s *stored, store verify.Store) (*resubmission, error) {
	entries, err := s.entries(ctx)
	if err != nil {
		return nil, err
	}
	r := &resubmission{live: make(map[string]int64), found: &foundMemory{findings: make(map[string]verify.Finding)}, markers: s.parked}
	own := e.Config.Pipeline().String()
	for name, entry := range entries {
		if entry.Pipeline == own && entry.Live != nil && entry.RetiredAt == nil {
			if err := s.checkReadModels(ctx, entry); err != nil {
				return nil, err
			}
			r.live[name] = entry.Live.Generation
		}
	}
	if len(r.live) == 0 {
		return nil, fmt.Errorf("no projection of subscription %s of topic %s has a live generation: start a projector first", e.Config.ServiceBus.Subscription, e.Config.ServiceBus.Topic)
	}
	if r.events, err = s.events(); err != nil {
		return nil, err
	}
	// The command prints the findings, so the verifier does not log them.
	r.worker, err = NewVerifier(e.Config, s.Stores, e.inCode, store, s.parked, r.found, commandPace(e.Config), zerolog.Nop())
	return r, err
}

// apply brings the aggregates of dead letters up to date. It returns, by sequence number,
// why a message must stay. Messages without a reason can be removed.
func (r *resubmission) apply(ctx context.Context, letters []deadLetter) (map[int64]string, error) {
	aggregates := make(map[string][]deadLetter)
	for _, d := range letters {
		aggregates[d.AggregateID] = append(aggregates[d.AggregateID], d)
	}
	var mu sync.Mutex
	kept := make(map[int64]string)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(commandParallel)
	for id, letters := range aggregates {
		group.Go(func() error {
			wrong := r.repair(ctx, id)
			for _, d := range letters {
				why, err := wrong, error(nil)
				if why == "" {
					why, err = r.lacks(ctx, d)
				}
				if err != nil {
					why = err.Error()
				}
				if why != "" {
					mu.Lock()
					kept[d.Sequence] = why
					mu.Unlock()
				}
			}
			// If the command was interrupted, its result must not cover the remaining
			// letters.
			return context.Cause(ctx)
		})
	}
	return kept, group.Wait()
}

// lacks returns a reason if the event store does not have the event of a dead letter,
// because the read models cannot have it then either. It is empty if the event store has
// the event.
func (r *resubmission) lacks(ctx context.Context, d deadLetter) (string, error) {
	_, err := r.events.Whole(ctx, &event.Event{Keys: event.Keys{AggregateID: d.AggregateID, EventID: d.EventID}, RawAggregateID: d.raw})
	if errors.Is(err, eventstore.ErrNotFound) {
		return fmt.Sprintf("the event store has no readable event %d of the aggregate, so no read model can be folded from it: restore or correct the event, or use deadletters discard", d.EventID), nil
	}
	return "", err
}

// repair verifies and repairs every live read model of an aggregate. It returns why one is
// still wrong; empty if all equal the fold of the aggregate's events.
func (r *resubmission) repair(ctx context.Context, aggregateID string) string {
	// A grace of 1 ms: the command does not wait for events that are still on the topic.
	params, err := bson.Marshal(verify.Params{Aggregate: aggregateID, Repair: true, GraceMillis: 1})
	if err != nil {
		return fmt.Sprintf("encode the parameters of a verification: %v", err)
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(r.live)) {
		j := job.Job{ID: "resubmit/" + name, Projection: name, Generation: r.live[name], Params: params}
		err := r.verify(ctx, j)
		f, found := r.found.take(j.ID + "/" + aggregateID)
		switch {
		case errors.Is(err, job.ErrNotHere):
			wrong = append(wrong, fmt.Sprintf("%v: run the command in a pod of the projectors", err))
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("verify the read model of projection %s: %v", name, err))
		case found && !f.Repaired && f.Kind != verify.Parked:
			wrong = append(wrong, fmt.Sprintf("the read model of projection %s is not repaired: %s", name, f.RepairError))
		case found:
			// The repair of a parked aggregate ends before the event that parked it.
			why, err := r.whyParked(ctx, name, aggregateID)
			switch {
			case err != nil:
				wrong = append(wrong, fmt.Sprintf("read the parked list of projection %s: %v", name, err))
			case why != "":
				wrong = append(wrong, why)
			case f.Kind == verify.Parked:
				wrong = append(wrong, fmt.Sprintf("the aggregate was parked in projection %s until just now: run the command again", name))
			}
		}
	}
	return strings.Join(wrong, "; ")
}

// whyParked says what a person has to do about an aggregate that was found parked in a
// projection.
func (r *resubmission) whyParked(ctx context.Context, name, aggregateID string) (string, error) {
	unit := model.Unit{Projection: name, Generation: r.live[name], AggregateID: aggregateID}
	at, err := r.markers.Parked(ctx, []model.Unit{unit})
	if err != nil || at[0].EventID == 0 {
		return "", err
	}
	discarded, err := r.markers.Matching(ctx, park.Filter{
		Projection: name, Generation: max(r.live[name], generation.First), AggregateID: aggregateID, Discarded: true,
	})
	if discarded > 0 {
		return fmt.Sprintf("the aggregate is discarded in projection %s: use deadletters discard, or resume it before by parked retry --discarded --aggregate %s", name, aggregateID), err
	}
	return fmt.Sprintf("the aggregate is parked in projection %s: see parked show %s %s", name, name, aggregateID), err
}

// verify runs one verification in this process, without a stored job.
func (r *resubmission) verify(ctx context.Context, j job.Job) error {
	ranges, _, err := r.worker.Plan(ctx, j)
	if err != nil {
		return err
	}
	for _, bounds := range ranges {
		if err := r.worker.Work(ctx, j, job.Range{Bounds: bounds}, noProgress{}); err != nil {
			return err
		}
	}
	return nil
}

// noProgress stores no progress: a verification of one aggregate is short and starts over.
type noProgress struct{}

func (noProgress) Save(context.Context, bson.Raw, map[string]int64) error { return nil }

// foundMemory keeps findings in memory until take removes them.
type foundMemory struct {
	mu       sync.Mutex
	findings map[string]verify.Finding
}

var _ verify.Findings = (*foundMemory)(nil)

// Put implements [verify.Findings].
func (m *foundMemory) Put(_ context.Context, f verify.Finding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.findings[f.ID] = f
	return nil
}

// take removes and returns a finding.
func (m *foundMemory) take(id string) (verify.Finding, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, found := m.findings[id]
	delete(m.findings, id)
	return f, found
}
