package catalog

import (
	"cmp"
	"slices"
)

// View is the information on which a pod bases its decisions.
type View struct {
	// Pipeline is the pipeline of the pod and of all entries.
	Pipeline string
	// Entries are the catalog's entries by projection name.
	Entries map[string]*Entry
	// Declares are this pod's projections.
	Declares []Declared
	// Alive are the registrations that have not expired, including this pod's.
	Alive []Registration
	// Empty is set if the event store has no events, so there is nothing to build from.
	Empty bool
	// Used is the highest generation number that the databases have of a declared projection, by
	// name: in the documents of its collection and in its watermarks.
	Used map[string]int64
}

// Change is a change of a catalog entry.
type Change struct {
	// Old is nil for a new entry.
	Old, New *Entry
	// Declared is the definition that asks for the change.
	Declared Declared
}

// begins reports whether a generation begins with the change.
func (c Change) begins() bool { return c.Old == nil || c.New.Generations != c.Old.Generations }

// Decide returns the changes of the catalog that this pod's declarations require. An
// entry that matches its declaration, or is being promoted, needs none.
func Decide(v View, by Author) []Change {
	var changes []Change
	for _, d := range v.Declares {
		c := Change{Old: v.Entries[d.Name], Declared: d}
		used := v.Used[d.Name]
		switch old := c.Old; {
		case old == nil && v.Empty && used == 0:
			c.New = Create(v.Pipeline, d, by)
		case old != nil && old.HasGivenUp(d.Hash):
			// An operator has cancelled its build: the pod follows the catalog.
		case old == nil || old.RetiredAt != nil || old.Live == nil && old.Building == nil:
			c.New, _ = Start(old, v.Pipeline, d, used, by)
		case d.Hash == old.Wanted():
			// The catalog has it already.
		case old.Seen(d.Hash) && v.declared(d.Name, old.Wanted()):
			// The pod has an old file: it follows the catalog.
		case old.Live != nil && old.Live.Hash == d.Hash && !old.Live.Frozen:
			c.New, _ = Cancel(old, by)
		default:
			c.New, _ = Start(old, v.Pipeline, d, used, by)
		}
		if c.New != nil {
			changes = append(changes, c)
		}
	}
	return changes
}

// InUse reports whether a projection uses a collection.
func InUse(entries map[string]*Entry, collection string) bool {
	for _, e := range entries {
		if e.Uses(collection) {
			return true
		}
	}
	return false
}

// declared reports whether an alive pod declares the projection with the hash.
func (v View) declared(name, hash string) bool {
	return slices.ContainsFunc(v.Alive, func(r Registration) bool {
		return slices.Contains(r.Declares, Declaration{Projection: name, Hash: hash})
	})
}

// Undeclared returns the projections that no registration declares and that are not
// retired.
func Undeclared(entries map[string]*Entry, alive []Registration) []string {
	declared := map[string]bool{}
	for _, r := range alive {
		for _, d := range r.Declares {
			declared[d.Projection] = true
		}
	}
	var names []string
	for name, e := range entries {
		if !declared[name] && e.RetiredAt == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Target is a generation into which pods fold events.
type Target struct {
	Projection string
	Generation int64
	Definition
	// Collection holds the generation's documents now: the shadow collection while it is
	// built, later the live one. It can differ from the definition's collection.
	Collection string
	// Building is set while the generation is built. No reader uses it yet, so it never
	// delays the settlement of an event.
	Building bool
	// Defers is set if an event is settled without this generation when the generation
	// lacks earlier events: a job that has not begun yet will fold the aggregate.
	Defers bool
	// Erased says that the entry has an ErasedAt.
	Erased bool
}

// Targets returns the generations into which every pod that can do so folds events: the
// live ones and those being built.
func Targets(entries map[string]*Entry) []Target {
	var targets []Target
	for name, e := range entries {
		if e.RetiredAt != nil {
			continue
		}
		if live := e.Live; live != nil && !live.Frozen {
			targets = append(targets, Target{Projection: name, Generation: live.Generation, Definition: live.Definition, Collection: live.Collection, Erased: e.ErasedAt != nil})
		}
		if b := e.Building; b != nil && b.Ongoing() {
			targets = append(targets, Target{Projection: name, Generation: b.Generation, Definition: b.Definition, Collection: b.Shadow, Building: true, Defers: b.State == Building, Erased: e.ErasedAt != nil})
		}
	}
	slices.SortFunc(targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.Generation, b.Generation))
	})
	return targets
}
