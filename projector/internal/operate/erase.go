package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/history"
)

// eraseCommand erases an aggregate from every copy, and searches the copies for it.
type eraseCommand struct {
	cli.Output
	cli.Change `set:"why=required"`
	Aggregate  string   `name:"aggregate" placeholder:"ID" help:"The aggregate to erase."`
	Mask       []string `name:"mask" placeholder:"FIELD" help:"First set these fields of its events to null, such as payload.name,payload.address. It needs the right to update events. Without it, the application must have masked or deleted the events."`
	Value      []string `name:"value" sep:"none" placeholder:"TEXT" help:"Also search for this text, such as a name or an address, and fail if it is left. Can be repeated. It is neither stored nor logged."`
}

func (*eraseCommand) needs() config.Part {
	return config.PartMongoDB | config.PartServiceBus | config.PartFields | config.PartHistory
}

// minSearched is how long a searched text must be at least: a shorter one is found everywhere.
const minSearched = 3

// Validate checks the flags. kong calls it.
func (c *eraseCommand) Validate() error {
	p := cli.Problems{c.RequireWhy("say why the aggregate is erased, without personal data; the reason is kept in the audit")}
	p.Require(c.Aggregate != "", "--aggregate is not set: name the aggregate to erase")
	p.Require(!strings.Contains(c.Why, c.Aggregate) || len(c.Aggregate) < minSearched, "--why has the id of the aggregate: the audit would keep it")
	for _, value := range c.Value {
		p.Require(len(value) >= minSearched, "a --value has less than %d bytes: it would be found everywhere", minSearched)
		p.Require(len(value) < minSearched || !strings.Contains(c.Why, value), "--why has a --value: the audit would keep it")
	}
	return errors.Join(p...)
}

// checkMask refuses fields that are not data of an event: Penstock cannot work without the others.
func (c *eraseCommand) checkMask(f event.Fields) error {
	var p cli.Problems
	for i, field := range c.Mask {
		top, rest, deep := strings.Cut(field, ".")
		own := f.Variable(top) != "" && top != f.Payload && top != f.Metadata
		p.Require(!own && top != "_id" && !strings.Contains(field, "$") && (!deep || rest != "") && top != "",
			"--mask is %q: name fields of the event's data, such as %s.name", field, f.Payload)
		others := slices.Delete(slices.Clone(c.Mask), i, i+1)
		p.Require(!slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(field+".", o+".") }),
			"--mask has %q twice, or also a field that it is in: leave it out", field)
	}
	return errors.Join(p...)
}

const hashPrefix = "sha256:"

// hashed is how records name an erased aggregate.
func hashed(aggregateID string) string {
	sum := sha256.Sum256([]byte(aggregateID))
	return hashPrefix + hex.EncodeToString(sum[:])
}

func (c *eraseCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return e.withDeadLetters(ctx, func(q deadletter.Queue) error { return c.erase(ctx, e, s, q) })
}

// erasing is one run of the command.
type erasing struct {
	*eraseCommand
	e        *Environment
	s        *stored
	queue    deadletter.Queue
	fields   event.Fields
	declared *definitions
	// raw is the id in the event store; its Type is 0 if the store has no event.
	raw    bson.RawValue
	counts map[string]int64
	// elsewhere are the projections of other releases, whose read models are in another database.
	elsewhere []string
	// entries are those of [erasing.mine] as of the present search.
	entries map[string]*catalog.Entry
}

func (c *eraseCommand) erase(ctx context.Context, e *Environment, s *stored, q deadletter.Queue) error {
	if err := c.checkMask(e.Config.EventFields()); err != nil {
		return err
	}
	declared, err := load(e.Config.Projections.Path, e.inCode)
	if err != nil {
		return e.refuseProjections(err)
	}
	r := &erasing{eraseCommand: c, e: e, s: s, queue: q, fields: e.Config.EventFields(), declared: newCommandDefinitions(s.Stores, e.Config, declared), counts: map[string]int64{}}
	mine, err := r.mine(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if mine[name].Definition().Collection == "" {
			continue
		}
		err := s.checkReadModels(ctx, mine[name])
		switch {
		case errors.Is(err, errOtherReadModels) && mine[name].Pipeline != e.Config.Pipeline().String():
			r.elsewhere = append(r.elsewhere, name)
		case err != nil:
			return err
		}
	}
	if err := r.find(ctx); err != nil {
		return err
	}
	if err := r.whole(ctx); err != nil {
		return err
	}
	if err := r.leads(ctx); err != nil {
		return err
	}
	before, err := r.search(ctx)
	if err != nil {
		return err
	}
	what := "erase aggregate " + hashed(c.Aggregate) + " from every copy"
	if mistyped, err := r.mistypedBefore(ctx, what, before); err != nil {
		return err
	} else if mistyped {
		before = nil
	}
	what += r.counted(before)
	if len(c.Mask) > 0 {
		what += ", and set " + strings.Join(c.Mask, ", ") + " of its events to null"
	}
	err = s.change(ctx, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
		err := r.run(ctx)
		if err != nil {
			// The text could name the aggregate, and the audit keeps it.
			err = errors.New(r.redacted(err.Error()))
		}
		return r.counts, err
	})
	if errors.Is(err, cli.ErrNotConfirmed) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; the erasure is not complete: repeat the command", err)
	}
	after, err := r.search(ctx)
	if err != nil {
		return fmt.Errorf("search for what is left: %w; repeat the command", err)
	}
	return r.print(compareFound(before, after))
}

// mine returns the entries of the catalog whose events are in the configured event store, but not
// those elsewhere.
func (r *erasing) mine(ctx context.Context) (map[string]*catalog.Entry, error) {
	entries, err := r.s.entries(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(entries, func(_ string, entry *catalog.Entry) bool { return !r.declared.mine(entry.Pipeline) })
	for _, name := range r.elsewhere {
		delete(entries, name)
	}
	return entries, nil
}

// find looks the aggregate up in the event store.
func (r *erasing) find(ctx context.Context) error {
	events, err := r.s.events(ctx)
	if err != nil {
		return err
	}
	known, err := events.Known(ctx, []string{r.Aggregate})
	r.raw = known[r.Aggregate]
	return err
}

// leads refuses a field of the mask that leads to nothing in any event, because it is most likely
// misspelt. A repeated erasure finds null there.
func (r *erasing) leads(ctx context.Context) error {
	if r.raw.Type == 0 || len(r.Mask) == 0 {
		return nil
	}
	absent := slices.Clone(r.Mask)
	err := r.eachEvent(ctx, func(event bson.Raw) error {
		absent = slices.DeleteFunc(absent, func(field string) bool { return len(r.valuesIn(event, field)) > 0 })
		return nil
	})
	if err != nil || len(absent) == 0 {
		return err
	}
	return fmt.Errorf("no event of the aggregate has the field %s of --mask: correct the name, or leave the field out", strings.Join(absent, " or "))
}

// mistypedBefore reports whether there are only the watermarks of earlier erasures, and the audit
// shows that the first of them found nothing either. what is how the audit names them.
func (r *erasing) mistypedBefore(ctx context.Context, what string, found []foundIn) (bool, error) {
	if r.raw.Type != 0 || slices.ContainsFunc(found, func(p foundIn) bool { return p.After > p.Kept }) {
		return false, nil
	}
	var earlier []string
	err := audit.In(r.s.State).Distinct(ctx, "what", bson.D{{Key: "what", Value: bson.D{{Key: "$gte", Value: what}, {Key: "$lt", Value: what + "~"}}}}).Decode(&earlier)
	if err != nil {
		return false, fmt.Errorf("read the audit: %w", err)
	}
	other := func(text string) bool { return !strings.HasPrefix(text, what+r.counted(nil)) }
	return len(earlier) > 0 && !slices.ContainsFunc(earlier, other), nil
}

// counted says what a search has found.
func (r *erasing) counted(found []foundIn) string {
	var events, places int64
	for _, p := range found {
		if p.After > 0 {
			places++
		}
		if p.Place == r.s.Events.Database().Name()+"."+r.s.Events.Name() {
			events = p.After
		}
	}
	return fmt.Sprintf(" (%s, found in %s)", cli.Count(events, "event"), cli.Count(places, "place"))
}

// run makes the erasure. Each step can be repeated.
func (r *erasing) run(ctx context.Context) error {
	if err := r.mask(ctx); err != nil {
		return err
	}
	if r.raw.Type == 0 {
		if err := r.announce(ctx); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{r.markers, r.readModels, r.abandonedParts, r.findings, r.quarantine, r.records, r.deadLetters} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// announce lets the projectors read the watermark of each aggregate before they create its read
// model, and gives them the time to see it in the catalog.
func (r *erasing) announce(ctx context.Context) error {
	mine, err := r.mine(ctx)
	if err != nil {
		return err
	}
	var wait time.Duration
	pipelines := make(map[string]bool)
	for name, entry := range mine {
		left := announced
		if entry.ErasedAt != nil {
			left = min(left, time.Until(entry.ErasedAt.Add(announced))) // a command may have been interrupted
		} else if _, err := (projectionName{name}).changeEntry(ctx, r.s, func(e *catalog.Entry) (*catalog.Entry, error) {
			changed, now := *e, time.Now()
			changed.ErasedAt = &now
			return &changed, nil
		}); err != nil {
			return fmt.Errorf("announce the erasure to the projectors of %s: %w", name, err)
		}
		wait, pipelines[entry.Pipeline] = max(wait, left), true
	}
	for pipeline := range pipelines {
		if running, err := r.s.alive(ctx, pipeline); err != nil {
			return err
		} else if len(running) > 0 {
			return poll.Wait(ctx, wait)
		}
	}
	return nil
}

// announced is longer than two times together: that between two looks of a projector at the catalog,
// and that of a session's call that began before the second look.
const announced = 20 * time.Second

// mask sets the fields of the events to null. Their ids, and with them the order, stay.
func (r *erasing) mask(ctx context.Context) error {
	if r.raw.Type == 0 || len(r.Mask) == 0 {
		return nil
	}
	return r.eachEvent(ctx, func(event bson.Raw) error {
		set := r.nulls(event)
		if set == nil {
			return nil
		}
		_, err := r.s.Events.UpdateOne(ctx, bson.D{{Key: "_id", Value: event.Lookup("_id")}, {Key: r.fields.AggregateID, Value: r.raw}}, bson.D{{Key: "$set", Value: set}})
		switch {
		case mongox.AccessRefused(err):
			return fmt.Errorf("--mask needs the right \"update\" on collection %s.%s, which no other command needs: grant it to the user of this command, or let the application mask the events, and leave --mask out", r.s.Events.Database().Name(), r.s.Events.Name())
		case err != nil:
			return fmt.Errorf("set %s of the events to null: %s", strings.Join(r.Mask, ", "), history.WithoutValues(err))
		}
		r.counts["masked"]++
		return nil
	})
}

// nulls returns the fields of an event that the mask sets to null; none of those that are null.
func (r *erasing) nulls(event bson.Raw) (set bson.D) {
	for _, field := range r.Mask {
		for _, found := range r.valuesIn(event, field) {
			if !found.null {
				set = append(set, bson.E{Key: found.path, Value: nil})
			}
		}
	}
	return set
}

// eachEvent calls visit with each stored event of the aggregate, until visit returns an error.
func (r *erasing) eachEvent(ctx context.Context, visit func(bson.Raw) error) error {
	cursor, err := r.s.Events.Find(ctx, bson.D{{Key: r.fields.AggregateID, Value: r.raw}})
	if err != nil {
		return fmt.Errorf("read the events to mask: %w", err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		if err := visit(cursor.Current); err != nil {
			return err
		}
	}
	return cursor.Err()
}

// maskable is a value to which a field of the mask leads.
type maskable struct {
	path string
	null bool
}

// valuesIn returns the values of an event to which a field of the mask leads.
func (*erasing) valuesIn(event bson.Raw, field string) []maskable {
	return valuesAt(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: event}, strings.Split(field, "."), nil)
}

// valuesAt returns the values to which a field leads. It leads into each element of an array.
func valuesAt(v bson.RawValue, field, at []string) (found []maskable) {
	if len(field) == 0 {
		return []maskable{{strings.Join(at, "."), v.Type == bson.TypeNull}}
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		if next, err := v.Document().LookupErr(field[0]); err == nil {
			return valuesAt(next, field[1:], append(slices.Clip(at), field[0]))
		}
	case bson.TypeArray:
		elements, _ := v.Array().Values()
		for i, element := range elements {
			found = append(found, valuesAt(element, field, append(slices.Clip(at), strconv.Itoa(i)))...)
		}
	}
	return found
}
