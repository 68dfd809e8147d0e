package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// kindsLast is how long the kinds of ids in the store are taken as known. An id of a new
	// kind that is inserted meanwhile belongs to a newer aggregate.
	kindsLast = time.Minute
	// namesakesKept bounds each half of the cache. The pages that are being read have far
	// fewer ids.
	namesakesKept = 1 << 16
)

// kind is how an aggregate's id is stored. Only a text can print like an id of another kind.
type kind byte

const (
	text kind = 1 << iota
	integer
	objectID
	uuid
)

func kindOf(t bson.Type) kind {
	switch t {
	case bson.TypeString:
		return text
	case bson.TypeInt32, bson.TypeInt64:
		return integer
	case bson.TypeObjectID:
		return objectID
	default:
		return uuid
	}
}

func (k kind) String() string {
	return map[kind]string{text: "string", integer: "integer", objectID: "ObjectId", uuid: "UUID"}[k]
}

// id is an aggregate's id in the store.
type id struct {
	canonical string
	kind      kind
}

// idOf returns the id of an aggregate, or a zero id if no other id can print like it.
func idOf(canonical string, t bson.Type) id {
	if canonical == "" || t == bson.TypeString && !hasNamesakes(canonical) {
		return id{}
	}
	return id{canonical, kindOf(t)}
}

// hasNamesakes reports whether an id of another type can print like this text.
func hasNamesakes(s string) bool {
	const maxDigits, hexLength, uuidLength = 20, 24, 36
	if len(s) > maxDigits && len(s) != hexLength && len(s) != uuidLength || !strings.ContainsRune("-0123456789abcdef", rune(s[0])) {
		return false
	}
	return len(appendForms(nil, s)) > 1
}

// namesakes caches which ids print like the id of an older aggregate.
type namesakes struct {
	mu sync.Mutex
	// kinds are the kinds of ids that the store has or had, as far as they are known. The
	// store was asked at asked.
	kinds kind
	asked time.Time
	// young and old map each id to the kind of the oldest aggregate that prints like it. If
	// young is full, it becomes old.
	young, old map[id]kind
}

// mixed reports whether two ids of the store can print alike.
func (n *namesakes) mixed() bool { return n.kinds&text != 0 && n.kinds != text }

func (n *namesakes) owner(i id) (k kind, known bool) {
	if k, known = n.young[i]; !known {
		k, known = n.old[i]
	}
	return k, known
}

func (n *namesakes) add(i id, owner kind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.young == nil || len(n.young) >= namesakesKept {
		n.young, n.old = make(map[id]kind), n.young
	}
	n.young[i] = owner
}

// Strangers finds the events whose aggregate has an older namesake: an aggregate whose id
// has another type and the same canonical form, such as the string "42" and the integer 42.
// Both would share the ids of their messages, their session and their read model, so only
// the older aggregate may be published and folded. The result has a [*event.ContractError]
// for each event of the newer one, and is nil if there is none.
//
// The older aggregate is the one whose first event has the older _id if both are ObjectIds,
// and the older timestamp otherwise. If these are equal, it is the one with the string. This
// follows from the event store alone, so both services agree without a record.
//
// If all ids of the store have one type, Strangers asks for nothing but their types, once a
// minute. Otherwise it asks once for each id that can have a namesake.
func (r *Reader) Strangers(ctx context.Context, documents []bson.Raw) ([]error, error) {
	ids, err := r.resolveDocuments(ctx, documents)
	var found []error
	for at := range ids {
		if why := r.stranger(ids[at]); why != nil {
			if found == nil {
				found = make([]error, len(documents))
			}
			found[at] = why
		}
	}
	return found, err
}

// stranger returns why an event with this id is a stranger's, from what resolve has found.
func (r *Reader) stranger(i id) error {
	r.namesakes.mu.Lock()
	owner, known := r.namesakes.owner(i)
	r.namesakes.mu.Unlock()
	if !known || owner == i.kind {
		return nil
	}
	return &event.ContractError{
		Reason: event.ReasonAmbiguousAggregateID, Field: r.fields.AggregateID,
		Detail: fmt.Sprintf("the %s %s reads like the %s that is the id of an older aggregate", i.kind, i.canonical, owner),
	}
}

// resolveDocuments resolves the ids of documents. The result has the id of each document
// that can have a namesake; it is nil if none can.
func (r *Reader) resolveDocuments(ctx context.Context, documents []bson.Raw) ([]id, error) {
	var ids []id
	for at, document := range documents {
		ev, _ := r.reader.ReadPosition(document)
		i := idOf(ev.AggregateID, ev.RawAggregateID.Type)
		if i == (id{}) {
			continue
		}
		if ids == nil {
			ids = make([]id, len(documents))
		}
		ids[at] = i
	}
	return ids, r.resolve(ctx, ids)
}

// resolve finds the oldest aggregate that prints like each of the ids, for stranger and
// [Reader.Read]. Zero ids are left out.
func (r *Reader) resolve(ctx context.Context, ids []id) error {
	if !slices.ContainsFunc(ids, func(i id) bool { return i.kind != 0 }) {
		return nil
	}
	if err := r.learnKinds(ctx, ids); err != nil {
		return err
	}
	n := &r.namesakes
	var wanted []string
	n.mu.Lock()
	if n.mixed() {
		for at, i := range ids {
			if _, known := n.owner(i); !known && i.kind != 0 && (at == 0 || ids[at-1] != i) {
				wanted = append(wanted, i.canonical)
			}
		}
	}
	n.mu.Unlock()
	if len(wanted) == 0 {
		return nil
	}
	_, err := r.Known(ctx, wanted)
	return err
}

// learnKinds finds out whether ids of the store can print alike.
func (r *Reader) learnKinds(ctx context.Context, ids []id) error {
	n := &r.namesakes
	n.mu.Lock()
	for _, i := range ids {
		n.kinds |= i.kind
	}
	kinds, fresh := n.kinds, time.Since(n.asked) < kindsLast
	mixed := n.mixed()
	n.mu.Unlock()
	if mixed || fresh {
		return nil
	}
	index, exists, err := r.index(ctx)
	if errors.Is(err, ErrIndex) || err == nil && !exists {
		return nil
	}
	if err != nil {
		return err
	}
	// Each query reads at most one key of the index, because a comparison matches values of
	// one type only.
	for _, q := range []struct {
		kind  kind
		least any
	}{{text, ""}, {integer, math.Inf(-1)}, {objectID, bson.ObjectID{}}, {uuid, bson.Binary{}}} {
		if kinds&text == 0 && q.kind != text {
			break // Without texts, no two ids print alike.
		}
		err := r.events.FindOne(ctx, bson.D{{Key: r.fields.AggregateID, Value: bson.D{{Key: "$gte", Value: q.least}}}},
			options.FindOne().SetHint(index).SetProjection(r.keyProjection())).Err()
		if err == nil {
			kinds |= q.kind
		} else if !errors.Is(err, mongo.ErrNoDocuments) {
			return fmt.Errorf("look for the types of ids in %s: %w", r.name(), err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kinds |= kinds
	n.asked = time.Now()
	return nil
}

// oldest finds the id whose aggregate began first. forms print alike, in the order of the
// index.
func (r *Reader) oldest(ctx context.Context, forms []bson.RawValue) (bson.RawValue, error) {
	var oldest bson.RawValue
	var first event.Event
	for _, form := range forms {
		document, err := r.events.FindOne(ctx, bson.D{
			{Key: r.fields.AggregateID, Value: form},
			{Key: r.fields.EventID, Value: bson.D{{Key: "$gte", Value: 1}}},
		}, options.FindOne().SetSort(r.keys())).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			continue
		}
		if err != nil {
			return oldest, fmt.Errorf("read the first event of aggregate %s: %w", form, err)
		}
		ev, _ := r.reader.Read(document)
		if oldest.Type == 0 || olderThan(&ev, &first) || form.Type == bson.TypeString && !olderThan(&first, &ev) {
			oldest, first = form, ev
		}
	}
	return oldest, nil
}

// olderThan compares when two events were stored, as far as that is known.
func olderThan(a, b *event.Event) bool {
	x, ok := a.Document.Lookup("_id").ObjectIDOK()
	y, both := b.Document.Lookup("_id").ObjectIDOK()
	if ok && both {
		return bytes.Compare(x[:], y[:]) < 0
	}
	return a.Timestamp.Before(b.Timestamp)
}
