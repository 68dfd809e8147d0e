package history

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// defaultGrace is the grace of a verification.
const defaultGrace = 30 * time.Second

// The directions of a range.
const (
	forward    = "events"
	documents  = "documents"
	watermarks = "watermarks"
	// absent looks for documents that a view lacks.
	absent = "absent documents"
	single = "aggregate"
)

// bounds are the decoded ends of a range. position is the progress within a range.
type bounds struct {
	Direction   string `bson:"direction"`
	From, Until eventstore.Position
}

type position struct {
	Events eventstore.Position `bson:"events"`
	After  string              `bson:"after"`
}

// planVerification splits a job into ranges of events, one range of documents and one of side
// watermarks. The total is the approximate number of events.
func (w *Workers) planVerification(ctx context.Context, j job.Job) (ranges []job.Bounds, total int64, err error) {
	params, err := readParams(j)
	if err != nil {
		return nil, 0, err
	}
	// If this process cannot fold the projection, its events may be in another store.
	target, err := w.Target(ctx, j.Projection, j.Generation)
	if err != nil {
		return nil, 0, err
	}
	if params.Aggregate != "" {
		b, err := marshalBounds(bounds{Direction: single})
		return []job.Bounds{b}, 0, err
	}
	if total, err = w.Events.Count(ctx); err != nil {
		return nil, 0, err
	}
	split, err := w.Events.Split(ctx, cmp.Or(w.Ranges, verificationRanges))
	if err != nil {
		return nil, 0, err
	}
	all := []bounds{{Direction: documents}, {Direction: watermarks}}
	if target.Projection.View() != nil {
		all = append(all, bounds{Direction: absent})
	}
	from := eventstore.Position{}
	for _, until := range append(split, eventstore.Position{}) {
		all = append(all, bounds{Direction: forward, From: from, Until: until})
		from = until
	}
	for _, b := range all {
		r, err := marshalBounds(b)
		if err != nil {
			return nil, 0, err
		}
		ranges = append(ranges, r)
	}
	return ranges, total, nil
}

// marshalBounds encodes both ends into From, because a direction without its ends has no
// meaning; To stays empty.
func marshalBounds(b bounds) (job.Bounds, error) {
	raw, err := bson.Marshal(b)
	if err != nil {
		return job.Bounds{}, fmt.Errorf("encode the bounds of a range: %w", err)
	}
	return job.Bounds{From: raw}, nil
}

// verify verifies a range, from its saved position on.
func (w *Workers) verify(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	params, err := readParams(j)
	if err != nil {
		return err
	}
	params.Sample, params.GraceMillis = cmp.Or(params.Sample, 1), cmp.Or(params.GraceMillis, defaultGrace.Milliseconds())
	target, err := w.Target(ctx, j.Projection, j.Generation)
	if err != nil {
		return err
	}
	var b bounds
	if err := bson.Unmarshal(r.From, &b); err != nil {
		return fmt.Errorf("read the bounds of a range of job %s: %w", j.ID, err)
	}
	var at position
	if r.Position != nil {
		if err := bson.Unmarshal(r.Position, &at); err != nil {
			return fmt.Errorf("read the position of a range of job %s: %w", j.ID, err)
		}
	}
	pass := newPass(w, j, &target, params, at, r.Counts, p)
	defer func() { pass.end() }()
	switch b.Direction {
	case forward:
		from := b.From
		if !at.Events.IsZero() {
			from = at.Events
		}
		return pass.events(ctx, from, b.Until)
	case documents:
		if target.Projection.View() != nil {
			return pass.viewDocuments(ctx, at.After)
		}
		return pass.documents(ctx, at.After)
	case absent:
		return pass.absentDocuments(ctx, at.After)
	case watermarks:
		return pass.watermarks(ctx, at.After)
	case single:
		return pass.single(ctx, params.Aggregate)
	}
	return fmt.Errorf("a range of job %s has the unknown direction %q", j.ID, b.Direction)
}

// sampled reports whether an aggregate belongs to the sample.
func (p *Params) sampled(aggregateID string) bool {
	if p.Sample >= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(aggregateID))
	// FNV barely mixes the last bytes into the high bits; the multiplication does.
	const golden = 0x9E3779B97F4A7C15
	sum := h.Sum64()
	sum ^= sum >> 32
	return float64((sum*golden)>>11)/(1<<53) < p.Sample
}
