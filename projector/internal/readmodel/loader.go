package readmodel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// LoaderOptions tune a [Loader]. The zero value is good.
type LoaderOptions struct {
	// Window is how long a key waits for company while others are about; a lone one
	// does not wait. Default 1 ms.
	Window time.Duration
	// MaxKeys bounds one group; default 1,000.
	MaxKeys int
	// Parallel bounds the groups under way; default 4.
	Parallel int
	// Queue bounds the keys that wait; beyond it Load blocks. Default 10,000.
	Queue int
}

// Loader reads the states of many sessions in few queries: one for each collection
// of a group, and one more for the watermarks of all whose document is not there.
// Run must be running for Load to return.
type Loader struct {
	db     database
	groups gatherer[Key, State]
}

// NewLoader makes a loader from that database, whose concerns it sets itself.
func NewLoader(db *mongo.Database, o LoaderOptions) *Loader { return newLoader(onMongo(db), o) }

func newLoader(db database, o LoaderOptions) *Loader {
	l := &Loader{db: db}
	l.groups = gatherer[Key, State]{
		lane:     func(Key) string { return "" },
		size:     func(Key) int { return 1 },
		carryOut: l.load,
		window:   cmp.Or(o.Window, time.Millisecond),
		maxItems: cmp.Or(o.MaxKeys, 1000),
		maxBytes: cmp.Or(o.MaxKeys, 1000),
		maxBusy:  cmp.Or(o.Parallel, 4),

		maxWaiting: cmp.Or(o.Queue, 10_000),
	}
	l.groups.init()
	return l
}

// Run answers until ctx ends, and returns its cause when all it started has ended.
// It may run once.
func (l *Loader) Run(ctx context.Context) error { return l.groups.run(ctx) }

// Load gives the state of each key, in the order given. A collection that cannot be
// read makes its own keys unavailable and no others. The error is the context's cause
// or [ErrClosed].
func (l *Loader) Load(ctx context.Context, keys []Key) ([]State, error) {
	return l.groups.do(ctx, keys)
}

// errForeign says that a document is not the engine's.
var errForeign = errors.New("the document has no valid " + fieldLastEventID + ": it is no read model of Penstock's")

// load loads a group.
func (l *Loader) load(ctx context.Context, _ string, keys []Key) []State {
	ctx, cancel := mongox.Patient(ctx, groupTimeout)
	defer cancel()
	answers := make([]State, len(keys))
	all := make([]int, len(keys))
	for i := range keys {
		all[i] = i
	}
	l.documents(ctx, keys, all, answers)
	absent := l.absent(all, answers)
	if len(absent) == 0 {
		return answers
	}
	l.sides(ctx, keys, absent, answers)
	// A document may have come and be about to go since it was looked for: its delete
	// has raised the watermark already. That watermark counts only where there still is
	// no document.
	var again []int
	for _, i := range absent {
		if keys[i].Deletes && answers[i].Watermark > 0 {
			again = append(again, i)
		}
	}
	l.documents(ctx, keys, again, answers)
	return answers
}

// absent gives those that were read and not found.
func (l *Loader) absent(indexes []int, answers []State) []int {
	var absent []int
	for _, i := range indexes {
		if a := &answers[i]; a.Unavailable == nil && a.Err == nil && a.Document == nil {
			absent = append(absent, i)
		}
	}
	return absent
}

// documents reads the documents of some keys; what is not found stays as it is.
func (l *Loader) documents(ctx context.Context, keys []Key, indexes []int, answers []State) {
	collections := make(map[string][]int)
	for _, i := range indexes {
		collections[keys[i].Collection] = append(collections[keys[i].Collection], i)
	}
	var work sync.WaitGroup
	for collection, indexes := range collections {
		work.Go(func() { l.collection(ctx, collection, keys, indexes, answers) })
	}
	work.Wait()
}

func (l *Loader) collection(ctx context.Context, collection string, keys []Key, indexes []int, answers []State) {
	asked := make(map[string][]int, len(indexes))
	ids := make([]string, 0, len(indexes))
	for _, i := range indexes {
		id := keys[i].AggregateID
		if asked[id] == nil {
			ids = append(ids, id)
		}
		asked[id] = append(asked[id], i)
	}
	found, err := l.db.find(ctx, collection, byID(ids), nil, len(ids))
	if err != nil {
		err = fmt.Errorf("load read models: %w", mongox.Explain(ctx, err))
		for _, i := range indexes {
			answers[i].Unavailable = err
		}
		return
	}
	for _, document := range found {
		id, _ := document.Lookup(fieldID).StringValueOK()
		for _, i := range asked[id] {
			answers[i] = stateOf(document)
		}
	}
}

func stateOf(document bson.Raw) State {
	watermark, ok := watermarkOf(document)
	if !ok {
		return State{Err: errForeign}
	}
	return State{Document: document, Watermark: watermark}
}

// sides reads the watermarks of keys without a document.
func (l *Loader) sides(ctx context.Context, keys []Key, indexes []int, answers []State) {
	asked := make([]*Key, len(indexes))
	for j, i := range indexes {
		asked[j] = &keys[i]
	}
	watermarks, err := sideWatermarks(ctx, l.db, asked)
	for _, i := range indexes {
		if err != nil {
			answers[i].Unavailable = fmt.Errorf("load watermarks: %w", mongox.Explain(ctx, err))
			continue
		}
		answers[i].Watermark = watermarks[sideKey{keys[i].Projection, keys[i].AggregateID}]
	}
}
