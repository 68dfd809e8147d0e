package verify

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Params say what a job verifies. The zero value is all, without repair.
type Params struct {
	// Sample is the share of the aggregates that are looked at, more than 0 and at most
	// 1; 0 means all. The choice depends on the aggregate's id alone, so it is the same
	// everywhere and each time.
	Sample float64 `bson:"sample,omitempty"`
	// Aggregate is the only aggregate that is looked at; empty means all.
	Aggregate string `bson:"aggregate,omitempty"`
	// Repair says that what is wrong is put right.
	Repair bool `bson:"repair,omitempty"`
	// GraceMillis is how long an aggregate may be behind; 0 means 30 s.
	GraceMillis int64 `bson:"graceMillis,omitempty"`
}

// Job is what a worker needs of a job.
type Job struct {
	ID, Projection string
	Generation     int64
	Params         bson.Raw
}

// Bounds are the ends of a range.
type Bounds struct{ From, To bson.Raw }

// Range is a part of a job, and how far it has come.
type Range struct {
	Bounds
	Position bson.Raw
	Counts   map[string]int64
}

// Progress takes what the work on a range has reached.
type Progress interface {
	Save(ctx context.Context, position bson.Raw, counts map[string]int64) error
}

// Events is the event store.
type Events interface {
	Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error)
	Split(ctx context.Context, n int) ([]eventstore.Position, error)
	Count(ctx context.Context) (int64, error)
	Read(document bson.Raw) (event.Event, error)
	Known(ctx context.Context, ids []string) (map[string][]bson.RawValue, error)
}

var _ Events = (*eventstore.Reader)(nil)

// Store loads and writes read models.
type Store interface {
	Load(ctx context.Context, units []model.Unit) ([]model.State, error)
	Release(states []model.State)
	Write(ctx context.Context, writes []model.Write) ([]model.Written, error)
}

// Repairer replaces documents whose content is wrong.
type Repairer interface {
	// SetAside keeps every writer from folding on from a document, if it still has the
	// watermark.
	SetAside(ctx context.Context, u model.Unit, watermark int64) (bool, error)
	// Replace puts a document with the watermark to, or none, in the place of a foreign
	// one.
	Replace(ctx context.Context, u model.Unit, foreign model.Foreign, document bson.Raw, to int64) (bool, error)
}

// Parking knows which units are parked.
type Parking interface {
	Parked(ctx context.Context, units []model.Unit) ([]model.Position, error)
}

// Listing lists the aggregates that have something stored.
type Listing interface {
	// Documents gives the ids of documents after one, in order; not all of them are
	// strings. Fewer than limit means that there are no more.
	Documents(ctx context.Context, u model.Unit, after string, limit int) ([]string, error)
	// Odd gives the documents whose _id is no string, as Extended JSON.
	Odd(ctx context.Context, u model.Unit, limit int) ([]string, error)
	// Watermarks gives the aggregates of the unit's side watermarks after one, in order.
	Watermarks(ctx context.Context, u model.Unit, after string, limit int) ([]string, error)
}

// Findings keeps what was found.
type Findings interface {
	Put(ctx context.Context, f Finding) error
}

// Options make a [Worker]. All but the last four are needed.
type Options struct {
	Events   Events
	Store    Store
	Repairer Repairer
	Parking  Parking
	Listing  Listing
	Findings Findings
	// Subject gives what a job verifies. Its error is passed on.
	Subject func(ctx context.Context, projection string, generation int64) (Subject, error)
	// Strict says that the events of an aggregate count from 1 without a hole.
	Strict bool
	// Wait is called for each page with the number of its events, and waits as long as
	// the rate limit says; nil means no limit.
	Wait func(ctx context.Context, events int) error
	// Ranges is into how many ranges of events a job is split; default 16.
	Ranges int
	// Save is how often progress is saved; default 2 s.
	Save   time.Duration
	Logger zerolog.Logger
}

// Worker verifies. It is safe for concurrent use.
type Worker struct {
	options Options
	// now and wait are the clock, which tests replace.
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error
}

// NewWorker makes a worker.
func NewWorker(o Options) *Worker {
	o.Ranges, o.Save = cmp.Or(o.Ranges, 16), cmp.Or(o.Save, 2*time.Second)
	return &Worker{options: o, now: time.Now, wait: backoff.Wait}
}

// The directions of a range.
const (
	forward    = "events"
	documents  = "documents"
	watermarks = "watermarks"
	single     = "aggregate"
)

// bounds are the ends of a range in the worker's own terms, and position where a range
// has come to.
type bounds struct {
	Direction   string `bson:"direction"`
	From, Until eventstore.Position
}

type position struct {
	Events eventstore.Position `bson:"events"`
	After  string              `bson:"after"`
}

// Plan splits a job into ranges of events, one of documents and one of side watermarks.
// The total is the number of events, about.
func (w *Worker) Plan(ctx context.Context, j Job) (ranges []Bounds, total int64, err error) {
	params, err := readParams(j)
	if err != nil {
		return nil, 0, err
	}
	// The events of a projection that this process cannot fold may be in another store.
	if _, err := w.options.Subject(ctx, j.Projection, j.Generation); err != nil {
		return nil, 0, err
	}
	if params.Aggregate != "" {
		b, err := marshalBounds(bounds{Direction: single})
		return []Bounds{b}, 0, err
	}
	if total, err = w.options.Events.Count(ctx); err != nil {
		return nil, 0, err
	}
	split, err := w.options.Events.Split(ctx, w.options.Ranges)
	if err != nil {
		return nil, 0, err
	}
	all := []bounds{{Direction: documents}, {Direction: watermarks}}
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

// marshalBounds keeps both ends in one document: they belong together.
func marshalBounds(b bounds) (Bounds, error) {
	raw, err := bson.Marshal(b)
	if err != nil {
		return Bounds{}, fmt.Errorf("encode the bounds of a range: %w", err)
	}
	return Bounds{From: raw}, nil
}

func readParams(j Job) (p Params, err error) {
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

// Work verifies a range.
func (w *Worker) Work(ctx context.Context, j Job, r Range, p Progress) error {
	params, err := readParams(j)
	if err != nil {
		return err
	}
	subject, err := w.options.Subject(ctx, j.Projection, j.Generation)
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
	pass := newPass(w, j, &subject, params, at, r.Counts, p)
	switch b.Direction {
	case forward:
		from := b.From
		if !at.Events.IsZero() {
			from = at.Events
		}
		return pass.events(ctx, from, b.Until)
	case documents:
		return pass.documents(ctx, at.After)
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
	// FNV mixes the last bytes into the high bits badly; a multiplication does better.
	const golden = 0x9E3779B97F4A7C15
	sum := h.Sum64()
	sum ^= sum >> 32
	return float64((sum*golden)>>11)/(1<<53) < p.Sample
}
