package projection

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// State is a read model document as a projection sees it: its own fields without the
// engine's (_id, lastEventId, lastUpdatedAt, lastGeneration). nil means that there is no
// document; an empty document is not nil.
type State = bson.Raw

// Func is a projection in Go. It returns the state after ev, given the state before. It
// must be pure: the same arguments give the same result, at any time and in any process,
// and it changes neither argument. ev is a copy, but other projections share the bytes of its
// values. It can return state itself if nothing changes, a new document, or nil for no document.
// Only a projection that declares Deletes can return nil for a state that is not nil. The result
// can share memory with both arguments. An error, a panic, or no result within 30 seconds parks
// the aggregate in this projection.
type Func func(state State, ev *event.Event) (State, error)

// Typed makes a [Func] from a function on a struct, with the driver's codecs. It is more
// convenient and slower. state is nil if there is no document; a nil result means no
// document. T must not contain maps, because the order of their keys is random.
func Typed[T any](apply func(state *T, ev *event.Event) (*T, error)) Func {
	return func(state State, ev *event.Event) (State, error) {
		var before *T
		if state != nil {
			before = new(T)
			if err := bson.Unmarshal(state, before); err != nil {
				return nil, fmt.Errorf("read state: %w", err)
			}
		}
		after, err := apply(before, ev)
		if err != nil || after == nil {
			return nil, err
		}
		next, err := bson.Marshal(after)
		if err != nil {
			return nil, fmt.Errorf("encode state: %w", err)
		}
		return next, nil
	}
}

// Declaration describes a projection in Go.
type Declaration struct {
	// Name names the projection in its watermarks, metrics and parked list. It is
	// unique and never changes.
	Name string
	// Collection holds its read models. No two projections share one.
	Collection string
	// AggregateType restricts it to aggregates of one type; empty means all.
	AggregateType string
	// Deletes says that Apply may return nil for a state that was not nil.
	Deletes bool
	// Version names the present behaviour of Apply, in at most 64 characters. Change it
	// whenever Apply would fold the same events to another read model: the read model is
	// then rebuilt. Penstock cannot detect a change of the code by itself.
	Version string
	// Snapshots are the event types with which a history may begin, as the section snapshots of a
	// file has them.
	Snapshots []string
	// Apply is the projection itself.
	Apply Func
}

// Projection is one projection, compiled and checked: immutable and safe for
// concurrent use. Make it with [New] or [Load].
type Projection struct {
	name       string
	collection string
	deletes    bool

	// sources is one, unless the projection is a view.
	sources []source
	// view is nil unless the projection is a view.
	view    *fold.View
	upcasts upcasts
	// types are the declared types of the fields that the rules read, by event type, and schemas are
	// all that the section events declares.
	types, schemas map[string]*schema
	// snapshots are the event types with which a history may begin, in order.
	snapshots []string

	definition string
}

// source is a kind of aggregate with its rules.
type source struct {
	// aggregateType is the only type that concerns the source; empty means all.
	aggregateType string
	on            handlers
	compute       computedFields
	// contribution is nil unless the projection is a view.
	contribution *contribution
	// apply is nil unless the projection is in Go.
	apply Func
}

// source returns the source that an aggregate of the type is of; nil if there is none.
func (p *Projection) source(aggregateType string) *source {
	for i := range p.sources {
		if s := &p.sources[i]; s.aggregateType == "" || s.aggregateType == aggregateType {
			return s
		}
	}
	return nil
}

// New makes a projection of a Go function.
func New(d Declaration) (*Projection, error) {
	var missing error
	if d.Apply == nil {
		missing = errors.New("its function Apply is nil")
	}
	if err := errors.Join(checkName(d.Name), checkCollection(d.Collection), missing, checkVersion(d.Version)); err != nil {
		return nil, fmt.Errorf("declare projection %q: %w", d.Name, err)
	}
	p := &Projection{
		name: d.Name, collection: d.Collection, deletes: d.Deletes,
		sources:   []source{{aggregateType: d.AggregateType, apply: d.Apply}},
		snapshots: slices.Sorted(slices.Values(d.Snapshots)),
	}
	p.definition = p.defineGo(d)
	return p, nil
}

// maxVersion bounds the version of a projection in Go.
const maxVersion = 64

func checkVersion(version string) error {
	if len(version) > maxVersion || !utf8.ValidString(version) {
		return fmt.Errorf("its version %q is not a text of at most %d bytes", version, maxVersion)
	}
	return nil
}

// validName bounds the name of a projection, which is part of labels and keys.
var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// checkName checks that a projection's name can be a metric's label, part of a log and a
// command-line argument.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the projection has no name")
	case strings.HasPrefix(name, "."), name == "system", strings.HasPrefix(name, "system."):
		return fmt.Errorf("name %q is not valid: collections begin with it while they are built, and MongoDB has no collection whose name begins with a dot or \"system.\"", name)
	case !validName.MatchString(name):
		return fmt.Errorf("name %q is not valid: use 1 to 64 letters, digits, dots, - and _", name)
	}
	return nil
}

// reserved are Penstock's own collections, and the usual name of the events collection,
// because all stores may share a database.
var reserved = append(mongox.OwnCollections(), "events")

// underConstruction are the names of collections that hold a generation before it is live.
var underConstruction = regexp.MustCompile(`\.(generation|promotion)-[0-9]+$`)

// checkCollection checks a name against the server's rules:
// https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-Restriction-on-Collection-Names
func checkCollection(name string) error {
	switch {
	case name == "":
		return errors.New("the projection has no collection")
	case slices.Contains(reserved, name):
		return fmt.Errorf("collection %s is reserved: Penstock uses it itself", name)
	case underConstruction.MatchString(name):
		return fmt.Errorf("collection %s has the name of one that Penstock builds and then renames: it must not end in .generation-N or .promotion-N", name)
	case len(name) > 200 || strings.HasPrefix(name, "system.") || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "$\x00"):
		return fmt.Errorf("collection %q is not a valid collection name: use at most 200 bytes, no $, no dot at the beginning, and not system.…", name)
	}
	return nil
}

// CheckSet reports projections with the same name or the same collection in a set that runs
// together.
func CheckSet(projections []*Projection) error {
	var problems []error
	names, collections := map[string]bool{}, map[string]string{}
	for _, p := range projections {
		if p == nil {
			problems = append(problems, errors.New("a projection in Go is nil: check the error of NewProjection"))
			continue
		}
		if names[p.name] {
			problems = append(problems, fmt.Errorf("projection %s is declared twice", p.name))
		}
		names[p.name] = true
		if other, taken := collections[p.collection]; taken && other != p.name {
			problems = append(problems, fmt.Errorf("projections %s and %s share the collection %s", other, p.name, p.collection))
		}
		collections[p.collection] = p.name
	}
	if len(projections) == 0 {
		problems = append(problems, errors.New("there is no projection"))
	}
	return errors.Join(problems...)
}

// Name is the projection's name.
func (p *Projection) Name() string { return p.name }

// Collection holds its read models.
func (p *Projection) Collection() string { return p.collection }

// Concerns reports whether the aggregate of ev is of one of the projection's types.
func (p *Projection) Concerns(ev *event.Event) bool { return p.source(ev.AggregateType) != nil }

// DeclaredTypes are the event types that the section events declares, in order. They include those
// that the projection does not handle.
func (p *Projection) DeclaredTypes() []string { return sortedKeys(p.schemas) }

// Source is a kind of aggregates whose events a projection folds.
type Source struct {
	// AggregateType is empty for all types.
	AggregateType string
	// EventTypes are those that the projection handles, in order, with those that upcasts turn
	// into others; nil for a projection in Go, which may handle any.
	EventTypes []string
}

// Handles reports whether the source has a rule for the event type, or may have one.
func (s Source) Handles(eventType string) bool {
	return s.EventTypes == nil || slices.Contains(s.EventTypes, eventType)
}

// Concerns reports whether the source has the aggregates of a type.
func (s Source) Concerns(aggregateType string) bool {
	return s.AggregateType == "" || s.AggregateType == aggregateType
}

// Sources returns the sources: one, unless the projection is a view.
func (p *Projection) Sources() []Source {
	found := make([]Source, len(p.sources))
	for i := range p.sources {
		s := &p.sources[i]
		found[i].AggregateType = s.aggregateType
		if !p.InCode() {
			found[i].EventTypes = slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(s.on), sortedKeys(p.upcasts.of(s.on))...))))
		}
	}
	return found
}

// Handles reports whether the projection has a rule for the type of ev, or for one that ev can
// become.
func (p *Projection) Handles(ev *event.Event) bool {
	s := p.source(ev.AggregateType)
	if s == nil {
		return false
	}
	_, listed := s.on[ev.EventType]
	return listed || p.upcasts[ev.EventType] != nil || s.apply != nil
}

// View makes the documents of a view from its parts; nil unless the projection is a view.
func (p *Projection) View() model.View {
	if p.view == nil {
		return nil
	}
	return p.view
}

// kind says what the declaration is, in messages.
func (p *Projection) kind() string {
	if p.view != nil {
		return "view"
	}
	return "projection"
}

// Deletes reports whether the projection ever deletes a document.
func (p *Projection) Deletes() bool { return p.deletes }
