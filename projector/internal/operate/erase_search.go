package operate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// foundIn is what a search has found in one place: numbers of documents or messages.
type foundIn struct {
	Place  string `json:"place"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	// Kept are those of After that are right: they have the id of the aggregate and no content of
	// deleted events.
	Kept int64 `json:"kept"`
}

// erased is the result of the command.
type erased struct {
	Places []foundIn `json:"places"`
	// Left is the number of documents and messages that should have nothing of the aggregate.
	Left int64 `json:"left"`
	// Unreached are the copies that the command cannot search.
	Unreached []string `json:"unreached"`
}

// unreached are the copies outside of the databases and the dead-letter queue.
var unreached = []string{
	"messages of the topic and of its other subscriptions, until their time to live has passed",
	"backups of MongoDB, until they expire",
	"the oplog of MongoDB, until it has rolled over",
	"logs and traces, which can have the id, and the stores of other subscribers",
}

func (r *erasing) print(places []foundIn) error {
	result := erased{Places: places, Unreached: unreached}
	if len(r.elsewhere) > 0 {
		others := "read models in another database, of " + strings.Join(r.elsewhere, ", ") + ": repeat the command with the settings of their release"
		result.Unreached = append([]string{others}, unreached...)
	}
	var before int64
	parks := false
	for _, p := range places {
		result.Left += p.After - p.Kept
		before += p.Before
		parks = parks || p.After > p.Before && strings.HasSuffix(p.Place, "."+park.CollectionName)
	}
	var err error
	if r.JSON() {
		err = cli.PrintJSON(r.e.stdout, result)
	} else {
		err = cli.List(r.e.stdout, r.Output, places, func(p foundIn) []cli.Field {
			return []cli.Field{
				{Name: "place", Text: p.Place},
				{Name: "found before", Text: strconv.FormatInt(p.Before, 10)},
				{Name: "found after", Text: strconv.FormatInt(p.After, 10)},
				{Name: "of these right", Text: strconv.FormatInt(p.Kept, 10)},
			}
		})
		text := "nothing is left in the places that the command searches\n"
		if result.Left > 0 {
			text = fmt.Sprintf("%d left: repeat the command, and remove by hand what stays\n", result.Left)
		}
		if before == 0 {
			text = "no place that the command searches had this id: is it written as in the event store?\n"
		}
		if parks {
			text += "the aggregate is parked, because a projection cannot apply its events as they are now: \"projector parked list\" says why\n"
		}
		text += "not searched: " + strings.Join(result.Unreached, "; ") + "\n"
		err = errors.Join(err, r.e.print("result", text))
	}
	if err == nil && (result.Left > 0 || before == 0) {
		err = cli.ErrFindings
	}
	return err
}

// compareFound joins two searches.
func compareFound(before, after []foundIn) []foundIn {
	all := slices.Clone(after)
	for _, b := range before {
		i := slices.IndexFunc(all, func(a foundIn) bool { return a.Place == b.Place })
		if i < 0 {
			i, all = len(all), append(all, foundIn{Place: b.Place})
		}
		all[i].Before = b.After
	}
	slices.SortFunc(all, func(a, b foundIn) int { return cmp.Compare(a.Place, b.Place) })
	return all
}

// search searches all collections of the state and of the read models, the aggregate's events, and
// the dead-letter queue.
func (r *erasing) search(ctx context.Context) (found []foundIn, err error) {
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	if r.entries, err = r.mine(ctx); err != nil {
		return nil, err
	}
	databases := []*mongo.Database{r.s.ReadModels}
	if r.s.State.Client() != r.s.ReadModels.Client() || r.s.State.Name() != r.s.ReadModels.Name() {
		databases = append(databases, r.s.State)
	}
	for _, db := range databases {
		names, err := db.ListCollectionNames(ctx, bson.D{{Key: "type", Value: "collection"}})
		if err != nil {
			return nil, fmt.Errorf("list the collections of database %s: %w", db.Name(), err)
		}
		for _, name := range names {
			events := r.s.Events
			if strings.HasPrefix(name, "system.") || name == events.Name() && db.Name() == events.Database().Name() {
				continue
			}
			in, err := r.searchCollection(ctx, db.Collection(name), bson.D{}, db.Name() == r.s.ReadModels.Name())
			if err != nil {
				return nil, err
			}
			found = append(found, in)
		}
	}
	if r.raw.Type != 0 {
		in, err := r.searchCollection(ctx, r.s.Events, bson.D{{Key: r.fields.AggregateID, Value: r.raw}}, true)
		if err != nil {
			return nil, err
		}
		found = append(found, in)
	}
	in := foundIn{Place: "dead letters of subscription " + r.e.Config.ServiceBus.Subscription}
	err = r.eachDeadLetter(ctx, func(m *deadletter.Message) {
		document, err := event.DecodeBody(m.ContentType, m.Body)
		var hit hit
		if err == nil {
			hit = r.match(document)
		} else {
			hit.value = slices.ContainsFunc(r.Value, func(value string) bool { return bytes.Contains(m.Body, []byte(value)) })
			hit.id = wordIn(string(m.Body), r.Aggregate) >= 0
		}
		if hit.id || hit.value {
			in.After++
		}
	})
	if err != nil {
		return nil, err
	}
	return append(found, in), nil
}

// eachDeadLetter calls visit with every message of the dead-letter queue. It fails if the queue is too
// long: what it does not reach could be the aggregate's.
func (r *erasing) eachDeadLetter(ctx context.Context, visit func(*deadletter.Message)) error {
	looking, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	read := 0
	err := deadletter.PeekAll(looking, r.queue, func(m *deadletter.Message) { read++; visit(m) })
	switch {
	case err == nil:
		return nil
	case read > 0 && looking.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("read the dead letters: the queue does not end within %v (%w): discard dead letters at its front, and repeat the command", peekTimeout, err)
	}
	return fmt.Errorf("read the dead letters: %w", err)
}

// searchCollection counts the documents of a collection that have the id or a value.
func (r *erasing) searchCollection(ctx context.Context, c *mongo.Collection, filter bson.D, models bool) (foundIn, error) {
	in := foundIn{Place: c.Database().Name() + "." + c.Name()}
	cursor, err := c.Find(ctx, filter)
	if err != nil {
		return in, fmt.Errorf("search collection %s: %w", in.Place, err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		hit := r.match(cursor.Current)
		if !hit.id && !hit.value {
			continue
		}
		in.After++
		if !hit.value && r.keeps(c.Name(), cursor.Current, models) {
			in.Kept++
		}
	}
	if err := cursor.Err(); err != nil {
		return in, fmt.Errorf("search collection %s: %w", in.Place, err)
	}
	return in, nil
}

// keeps reports whether a document may have the id. While the event store has events of the
// aggregate, read models, markers and bounds of running jobs are right. Without events, only a watermark
// without content is.
func (r *erasing) keeps(collection string, document bson.Raw, models bool) bool {
	switch {
	case collection == "watermarks" && document.Lookup("part").Type == 0:
		return true
	case r.raw.Type == 0:
		return false
	case models:
		return !r.abandoned(collection, document)
	}
	return collection == park.CollectionName || collection == job.RangesCollectionName
}

// abandoned reports whether a document is of a generation that is neither live nor being built: the
// command does not fold it again.
func (r *erasing) abandoned(collection string, document bson.Raw) bool {
	if collection == "watermarks" {
		name, _ := document.Lookup("_id", "projection").StringValueOK()
		number, _ := document.Lookup("_id", "generation").AsInt64OK()
		e := r.entries[name]
		return e != nil && !slices.Contains(e.Current(), number)
	}
	for _, e := range r.entries {
		if e.Abandons(collection) {
			return true
		}
	}
	return false
}

// hit says what a document has.
type hit struct{ id, value bool }

// match searches a document: its texts and names of fields.
func (r *erasing) match(document bson.Raw) (h hit) {
	elements, err := document.Elements()
	if err != nil {
		return h
	}
	for _, e := range elements {
		key, value := e.Key(), e.Value()
		h = h.or(r.matchText(key))
		switch value.Type {
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			h = h.or(r.match(value.Value))
		case bson.TypeString:
			h = h.or(r.matchText(value.StringValue()))
		default:
			text, number := scalar(value, r.fields.UUIDs)
			h.value = h.value || slices.Contains(r.Value, text)
			// Every document has numbers, so one counts only in a field that has ids of aggregates.
			h.id = h.id || text == r.Aggregate && (!number || key == r.fields.AggregateID || key == "rawAggregateId")
		}
	}
	return h
}

func (h hit) or(o hit) hit { return hit{h.id || o.id, h.value || o.value} }

func (r *erasing) matchText(text string) hit {
	return hit{
		id:    wordIn(text, r.Aggregate) >= 0,
		value: slices.ContainsFunc(r.Value, func(value string) bool { return strings.Contains(text, value) }),
	}
}

// scalar returns a number, an ObjectId or a UUID as a person writes it; empty for other values. older
// is the order of the bytes of older UUIDs.
func scalar(v bson.RawValue, older event.UUIDRepresentation) (text string, number bool) {
	const uuidBytes = 16
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10), true
	case bson.TypeDouble:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64), true
	case bson.TypeDecimal128:
		return v.Decimal128().String(), true
	case bson.TypeObjectID:
		return v.ObjectID().Hex(), false
	case bson.TypeBinary:
		switch subtype, data := v.Binary(); {
		case len(data) != uuidBytes:
		case subtype == bson.TypeBinaryUUID:
			return event.FormatUUID([uuidBytes]byte(data)), false
		case subtype == bson.TypeBinaryUUIDOld && older.Ordered():
			return event.FormatUUID(older.Reorder([uuidBytes]byte(data))), false
		}
	}
	return "", false
}

// wordIn finds a word in a text; -1 if the text does not have it. A short word, and one that is
// a number, counts only if it is the whole text or in quotes.
func wordIn(text, word string) int {
	if text == word {
		return 0
	}
	strict := len(word) < 4 || !strings.ContainsFunc(word, unicode.IsLetter)
	for from := 0; from < len(text); {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return -1
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(word):])
		if strict && before == '"' && after == '"' || !strict && !inWord(before) && !inWord(after) {
			return at
		}
		from = at + len(word)
	}
	return -1
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-')
}
