package history

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// VerifyParams say what a job verifies. The zero value verifies everything and repairs nothing.
type VerifyParams struct {
	// Sample is the share of the aggregates that are checked, more than 0 and at most 1;
	// 0 means all. The choice depends only on the aggregate's id, so every process and
	// every job chooses the same aggregates.
	Sample float64 `bson:"sample,omitempty"`
	// Aggregate is the only aggregate that is checked; empty means all.
	Aggregate string `bson:"aggregate,omitempty"`
	// Repair makes the job repair wrong read models.
	Repair bool `bson:"repair,omitempty"`
	// GraceMillis is how long an aggregate may be behind, in milliseconds; 0 means 30 s.
	GraceMillis int64 `bson:"graceMillis,omitempty"`
}

// Events is the event store.
type Events interface {
	Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error)
	Split(ctx context.Context, n int) ([]eventstore.Position, error)
	Count(ctx context.Context) (int64, error)
	Read(document bson.Raw) (event.Event, error)
	Known(ctx context.Context, ids []string) (map[string]bson.RawValue, error)
}

var _ Events = (*eventstore.Reader)(nil)

// ReadModels loads and writes read models.
type ReadModels interface {
	Load(ctx context.Context, units []model.Unit) ([]model.State, error)
	Release(states []model.State)
	Write(ctx context.Context, writes []model.Write) ([]model.Written, error)
}

// Repairer replaces documents whose content is wrong.
type Repairer interface {
	// SetAside prevents every writer from continuing to fold from a document. It returns
	// false if the document no longer has the watermark.
	SetAside(ctx context.Context, u model.Unit, watermark int64) (bool, error)
	// Replace replaces a foreign document with one that has the watermark to, or, if
	// document is nil, with none.
	Replace(ctx context.Context, u model.Unit, foreign model.Foreign, document bson.Raw, to int64) (bool, error)
}

// Listing lists the aggregates that have a document or a side watermark.
type Listing interface {
	// Documents returns the string ids of at most limit documents after the given id, in
	// order. Fewer than limit means that there are no more.
	Documents(ctx context.Context, u model.Unit, after string, limit int) ([]string, error)
	// Listed returns those of the ids that Documents lists.
	Listed(ctx context.Context, u model.Unit, ids []string) ([]string, error)
	// Odd returns the _ids that are not strings, as Extended JSON, at most limit.
	Odd(ctx context.Context, u model.Unit, limit int) ([]string, error)
	// Watermarks returns the aggregate ids of at most limit side watermarks of the unit
	// after the given id, in order.
	Watermarks(ctx context.Context, u model.Unit, after string, limit int) ([]string, error)
}

// Findings stores findings.
type Findings interface {
	Put(ctx context.Context, f Finding) error
}

// VerifyOptions configure a [Verifier]. All but Current, Succeeded, Begin, Ranges and Logger are
// required.
type VerifyOptions struct {
	Events   Events
	Store    ReadModels
	Repairer Repairer
	Parking  Parking
	Listing  Listing
	Views    Views
	Findings Findings
	// Target returns the generation that a job verifies. Plan and Work return its error.
	Target func(ctx context.Context, projection string, generation int64) (engine.Target, error)
	// Current returns an error if the generation that a job verifies is no longer one of the
	// catalog, or is just being replaced. It is called after a read model was read and before a
	// finding about it is stored, so it must be cheap. nil means that no generation is replaced.
	Current func(ctx context.Context, projection string, generation int64) error
	// Succeeded reports whether a generation that is being built can replace a live one at any
	// time. Then the live one is not repaired. nil means never.
	Succeeded func(ctx context.Context, projection string, live int64) (bool, error)
	// Begin is called after events were read, with their number: after each batch, and after
	// each aggregate that was read again to confirm a finding or to repair. It waits as long
	// as the rate limit and live events demand. end is called before the next wait, perhaps
	// several times. nil means no limit.
	Begin func(ctx context.Context, events int) (end func(), err error)
	// Ranges is the number of event ranges into which a job is split; default 16.
	Ranges int
	Logger zerolog.Logger
}

// Verifier plans and runs verification jobs, and sweeps that compare content. It is safe for
// concurrent use.
type Verifier struct {
	options VerifyOptions
	// now and wait are the clock. Tests replace them.
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error
}

var _ job.Worker = (*Verifier)(nil)

// NewVerifier makes a worker.
func NewVerifier(o VerifyOptions) *Verifier {
	o.Ranges = cmp.Or(o.Ranges, 16)
	return &Verifier{options: o, now: time.Now, wait: poll.Wait}
}

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

// Plan splits a job into ranges of events, one range of documents and one of side
// watermarks. The total is the approximate number of events.
func (w *Verifier) Plan(ctx context.Context, j job.Job) (ranges []job.Bounds, total int64, err error) {
	params, err := readParams(j)
	if err != nil {
		return nil, 0, err
	}
	// If this process cannot fold the projection, its events may be in another store.
	target, err := w.options.Target(ctx, j.Projection, j.Generation)
	if err != nil {
		return nil, 0, err
	}
	if params.Aggregate != "" {
		b, err := marshalBounds(bounds{Direction: single})
		return []job.Bounds{b}, 0, err
	}
	if total, err = w.options.Events.Count(ctx); err != nil {
		return nil, 0, err
	}
	split, err := w.options.Events.Split(ctx, w.options.Ranges)
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

func readParams(j job.Job) (p VerifyParams, err error) {
	if j.Params != nil {
		if err := bson.Unmarshal(j.Params, &p); err != nil {
			return p, fmt.Errorf("read the parameters of job %s: %w", j.ID, err)
		}
	}
	if p.Sample == 0 {
		p.Sample = 1
	}
	p.GraceMillis = cmp.Or(p.GraceMillis, (30 * time.Second).Milliseconds())
	return p, nil
}

// Work verifies a range, from its saved position on.
func (w *Verifier) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	params, err := readParams(j)
	if err != nil {
		return err
	}
	target, err := w.options.Target(ctx, j.Projection, j.Generation)
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
func (p *VerifyParams) sampled(aggregateID string) bool {
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
