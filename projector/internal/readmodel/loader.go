package readmodel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// LoaderOptions configure a [Loader]. The zero value is valid.
type LoaderOptions struct {
	// MaxBytes bounds the documents that are loaded and not yet released, over all callers;
	// default 64 MiB. A single document may be larger. If the documents of a page are
	// larger than earlier ones of the collection, each running group can exceed it by up to
	// 16 MiB.
	MaxBytes int
}

// Loader reads the states of many sessions in few queries: for each group of keys of a
// collection one, and another one for the watermarks of units without a document. The states
// of units with Parts are in their watermarks, so one query is enough. Collections are
// independent of each other. Load returns only while Run is running.
type Loader struct {
	db     database
	groups gatherer[model.Unit, model.State]
	budget *budget
	sizes  sizes
	// bare loads states without their documents.
	bare bool
}

// NewLoader makes a loader for that database. It sets the read concern itself.
func NewLoader(db *mongo.Database, o LoaderOptions) *Loader { return newLoader(onMongo(db), o) }

func newLoader(db database, o LoaderOptions) *Loader {
	l := &Loader{db: db, budget: newBudget(cmp.Or(o.MaxBytes, 64<<20))}
	l.groups = gatherer[model.Unit, model.State]{
		lane:     func(k model.Unit) string { return k.Collection },
		size:     func(model.Unit) int { return 1 },
		carryOut: l.load,
		discard:  l.Release,
		window:   time.Millisecond,
		maxItems: 1000,
		maxBytes: 1000,
		maxBusy:  4,
	}
	l.groups.init()
	return l
}

// Run answers until ctx ends, and returns its cause when all its goroutines have ended. It
// may run once.
func (l *Loader) Run(ctx context.Context) error { return l.groups.run(ctx) }

// Load gives the state of each unit, in the same order. The caller releases the states when
// it no longer uses their documents. If memory has no room for all, Load defers some units,
// but waits until there is room for one. If a collection cannot be read, its units are
// unavailable. The error is the context's cause or [ErrClosed]; then there is nothing to
// release.
func (l *Loader) Load(ctx context.Context, units []model.Unit) ([]model.State, error) {
	for {
		freed := l.budget.watch()
		states, err := l.groups.do(ctx, units)
		if err != nil || len(units) == 0 || slices.ContainsFunc(states, func(s model.State) bool { return !s.Deferred }) {
			return states, err
		}
		if err := waitFor(ctx, freed); err != nil {
			return nil, err
		}
	}
}

// Release says that the documents of states are no longer used.
func (l *Loader) Release(states []model.State) {
	bytes := 0
	for i := range states {
		bytes += len(states[i].Document)
	}
	l.budget.give(bytes)
}

// errNoReadModel says that the engine has not written the document.
var errNoReadModel = errors.New("the document has no valid " + model.FieldLastEventID + ": it is not a read model of Penstock")

// load loads a group of keys of one collection.
func (l *Loader) load(ctx context.Context, collection string, keys []model.Unit) []model.State {
	ctx, cancel := mongox.Timeout(ctx, groupTimeout)
	defer cancel()
	answers := make([]model.State, len(keys))
	var all, parts []int
	for i := range keys {
		answers[i].Watermark = keys[i].NoEvent()
		if keys[i].Parts {
			parts = append(parts, i)
		} else {
			all = append(all, i)
		}
	}
	l.read(ctx, records, collection, keys, parts, answers)
	documents := documentsIn(collection)
	l.read(ctx, documents, collection, keys, all, answers)
	absent := l.absent(all, answers)
	if len(absent) == 0 {
		return answers
	}
	l.sides(ctx, keys, absent, answers)
	// The document may have been created and deleted after the first query. Its delete
	// raises the watermark before it removes the document. So the watermark counts only if
	// there still is no document.
	var again []int
	for _, i := range absent {
		if keys[i].Deletes && answers[i].Watermark > keys[i].NoEvent() {
			again = append(again, i)
		}
	}
	l.read(ctx, documents, collection, keys, again, answers)
	return answers
}

// absent gives the keys that were read and not found.
func (l *Loader) absent(indexes []int, answers []model.State) []int {
	var absent []int
	for _, i := range indexes {
		if a := &answers[i]; a.Unavailable == nil && a.Err == nil && a.Document == nil && !a.Deferred {
			absent = append(absent, i)
		}
	}
	return absent
}

// pageBytes is the approximate size of one read. The first page of a collection may be
// larger, because the size of its documents is not known yet.
const pageBytes = 4 << 20

// source is where the states of units are stored, each in a document.
type source struct {
	collection string
	// filter matches the documents of units.
	filter func([]*model.Unit) bson.Raw
	// bare projects everything but the units' own fields.
	bare bson.Raw
	// key identifies the document of a unit, and found is the key of a document.
	key   func(*model.Unit) sideKey
	found func(bson.Raw) sideKey
	// state is the state of a unit for which a document was found. side is the unit's side
	// watermark.
	state func(document bson.Raw, u *model.Unit, side int64) model.State
}

// documentsIn is the source of units with a document in the collection.
func documentsIn(collection string) source {
	return source{
		collection: collection, bare: watermarkOnly, state: stateOf,
		filter: func(units []*model.Unit) bson.Raw {
			ids := make([]string, len(units))
			for i, u := range units {
				ids[i] = u.AggregateID
			}
			return byID(ids)
		},
		key: func(u *model.Unit) sideKey { return sideKey{aggregateID: u.AggregateID} },
		found: func(document bson.Raw) sideKey {
			id, _ := document.Lookup(fieldID).StringValueOK()
			return sideKey{aggregateID: id}
		},
	}
}

// records is the source of units with Parts.
var records = source{
	collection: watermarksCollection, filter: bySideID, bare: recordWithoutPart, key: sideKeyOf, found: sideKeyIn,
	state: func(record bson.Raw, _ *model.Unit, _ int64) model.State { return stateOfRecord(record) },
}

// maxRefused bounds the requests of one read that the server may refuse before the rest counts as
// unavailable.
const maxRefused = 32

// answered reports whether the server has answered a request, and with an error: one document may be
// the reason, such as one on a shard that is down.
func answered(err error) bool {
	var answer mongo.CommandError
	return errors.As(err, &answer) && !mongo.IsNetworkError(err) && !mongo.IsTimeout(err)
}

// read reads the documents of some keys in pages, as memory has room for them. The answers
// for keys without a document stay unchanged. collection is that of the keys. After a refusal it
// reads fewer documents at once, so that one that cannot be read leaves the others available.
func (l *Loader) read(ctx context.Context, from source, collection string, keys []model.Unit, indexes []int, answers []model.State) {
	asked := make(map[sideKey][]int, len(indexes))
	units := make([]*model.Unit, 0, len(indexes))
	for _, i := range indexes {
		key := from.key(&keys[i])
		if asked[key] == nil {
			units = append(units, &keys[i])
		}
		asked[key] = append(asked[key], i)
	}
	set := func(units []*model.Unit, change func(*model.State)) {
		for _, u := range units {
			for _, i := range asked[from.key(u)] {
				change(&answers[i])
			}
		}
	}
	var fields bson.Raw
	if l.bare {
		fields = from.bare
	}
	most, refusals := len(units), 0
	for len(units) > 0 {
		size := l.sizes.of(collection)
		n := min(max(1, min(pageBytes, l.budget.limit)/size), most, len(units))
		share := n * size
		if !l.budget.take(share) {
			set(units, func(s *model.State) { s.Deferred = true })
			return
		}
		page := units[:n]
		found, complete, err := l.db.page(ctx, from.collection, from.filter(page), fields, n, pageBytes)
		if err != nil {
			l.budget.give(share)
			failed := units
			switch refusals++; {
			case !answered(err) || refusals > maxRefused:
			case n > 1:
				failed, most = nil, n/2
			default:
				failed = units[:1]
			}
			err = fmt.Errorf("load read models: %w", mongox.Explain(ctx, err))
			set(failed, func(s *model.State) { s.Unavailable = err })
			units = units[len(failed):]
			continue
		}
		most = min(2*most, len(units))
		read := make(map[sideKey]bool, len(found))
		bytes := 0
		for _, document := range found {
			key := from.found(document)
			read[key] = true
			for _, i := range asked[key] {
				answers[i] = from.state(document, &keys[i], answers[i].Watermark)
				if a := &answers[i]; a.Err != nil || a.Unavailable != nil {
					a.Watermark = keys[i].NoEvent()
				}
				bytes += len(answers[i].Document)
			}
		}
		l.budget.adjust(bytes - share)
		l.sizes.learn(collection, found)
		units = units[n:]
		if !complete {
			units = slices.Concat(slices.DeleteFunc(page, func(u *model.Unit) bool { return read[from.key(u)] }), units)
		}
	}
}

// stateOf is the state of a unit for which a document was found. side is the unit's side
// watermark, which counts if the document is foreign.
func stateOf(document bson.Raw, u *model.Unit, side int64) model.State {
	watermark, ok := foreignWatermark(document)
	generation, numbered := generationOf(document)
	own := u.Number()
	switch {
	case !ok || watermark == viewWatermark && generation == own:
		return model.State{Err: errNoReadModel}
	case !numbered:
		return model.State{Err: errNoGeneration}
	case generation > own:
		return model.State{Unavailable: fmt.Errorf("load %s of %s, of which there is generation %d: %w", u.AggregateID, u.Projection, generation, model.ErrSuperseded)}
	case generation < own:
		return model.State{Watermark: side, Foreign: &model.Foreign{Generation: generation, Watermark: watermark, UpdatedAt: updatedAt(document)}}
	}
	return model.State{Document: document, Watermark: watermark, UpdatedAt: updatedAt(document)}
}

// sides reads the watermarks of keys without a document.
func (l *Loader) sides(ctx context.Context, keys []model.Unit, indexes []int, answers []model.State) {
	asked := make([]*model.Unit, len(indexes))
	for j, i := range indexes {
		asked[j] = &keys[i]
	}
	watermarks, err := sideWatermarks(ctx, l.db, asked)
	for _, i := range indexes {
		if err != nil {
			answers[i].Unavailable = fmt.Errorf("load watermarks: %w", mongox.Explain(ctx, err))
			continue
		}
		if answers[i].Watermark = watermarks[sideKeyOf(&keys[i])]; answers[i].Watermark == unreadable {
			answers[i] = model.State{Err: errNoRecord, Watermark: keys[i].NoEvent()}
		}
	}
}

// watermarkPage is how many units one query has.
const watermarkPage = 1000

// Watermarks gives the state of each unit without its document, in the same order. It reads
// only the watermarks and generations of documents, so it is made for comparing many units
// with the event store. Unlike [Loader.Load] it shares no queries with other callers, never
// defers a unit, and leaves nothing to release. Run need not be running. If a collection
// cannot be read, its units are unavailable. The error is the context's cause.
func (l *Loader) Watermarks(ctx context.Context, units []model.Unit) ([]model.State, error) {
	// The results are small: pages bound them, and they are in memory only briefly.
	small := &Loader{db: l.db, budget: newBudget(math.MaxInt), bare: true}
	byCollection := make(map[string][]int)
	for i := range units {
		byCollection[units[i].Collection] = append(byCollection[units[i].Collection], i)
	}
	states := make([]model.State, len(units))
	for collection, indexes := range byCollection {
		for len(indexes) > 0 {
			page := indexes[:min(watermarkPage, len(indexes))]
			indexes = indexes[len(page):]
			asked := make([]model.Unit, len(page))
			for j, i := range page {
				asked[j] = units[i]
			}
			for j, state := range small.load(ctx, collection, asked) {
				state.Document = nil
				states[page[j]] = state
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
	return states, nil
}

// Watermarks gives the watermark of each unit, in the same order, as [Loader.Watermarks] does:
// NoEvent if the unit has no event yet, if its generation was replaced, or if it is no read model. A
// watermark may rise after it was read, and is never higher than what a later read finds.
func Watermarks(ctx context.Context, db *mongo.Database, units []model.Unit) ([]int64, error) {
	return watermarks(ctx, onMongo(db), units)
}

func watermarks(ctx context.Context, db database, units []model.Unit) ([]int64, error) {
	asked := slices.Clone(units)
	for i := range asked {
		// The caller may not know which units are deleted.
		asked[i].Deletes = true
	}
	states, err := (&Loader{db: db}).Watermarks(ctx, asked)
	if err != nil {
		return nil, err
	}
	found := make([]int64, len(units))
	for i, s := range states {
		if s.Unavailable != nil && !errors.Is(s.Unavailable, model.ErrSuperseded) {
			return nil, s.Unavailable
		}
		found[i] = s.Watermark
	}
	return found, nil
}
