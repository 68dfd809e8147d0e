package generation

import (
	"cmp"
	"fmt"
	"slices"
)

// View is what a pod decides by.
type View struct {
	// Pipeline is the pod's, and of all entries.
	Pipeline string
	// Entries are the catalog's, by name.
	Entries map[string]*Entry
	// Declares are this pod's projections.
	Declares []Declared
	// Alive are the registrations that hold, this pod's among them.
	Alive []Registration
	// Empty says that the event store has no event: there is nothing to build from.
	Empty bool
	// Known are the projections without an entry that have a read model or a watermark
	// from before there was a catalog.
	Known map[string]bool
}

// Change is one that the catalog needs.
type Change struct {
	// Old is nil for a new entry.
	Old, New *Entry
	// Declared is the definition that asks for the change.
	Declared Declared
	// Changed says that a projection's definition is replaced by another one, which an
	// operator may want to confirm first.
	Changed bool
}

// Decide gives the changes that the catalog needs for this pod's declarations. Entries
// that are as they must be, or that are being promoted, give none.
func Decide(v View, by Author) []Change {
	var changes []Change
	for _, d := range v.Declares {
		c := Change{Old: v.Entries[d.Name], Declared: d}
		switch old := c.Old; {
		case old == nil && v.Known[d.Name] && !v.used(d):
			c.New = Create(v.Pipeline, d, true, by)
		case old == nil && v.Empty && !v.used(d):
			c.New = Create(v.Pipeline, d, false, by)
		case old != nil && old.HasGivenUp(d.Hash):
			// An operator has cancelled its build: the pod follows the catalog.
		case old == nil || old.RetiredAt != nil || old.Live == nil && old.Building == nil:
			c.New, _ = Start(old, v.Pipeline, d, by)
			c.Changed = old != nil && old.Live != nil && old.Live.Hash != d.Hash
		case d.Hash == old.Wanted():
			if old.asked() && (old.Building == nil || old.Building.State != Promoting) {
				c.New = declare(old, by)
			}
		case old.Seen(d.Hash) && old.asked():
			// An operator has asked for another definition, and its pods are still to come.
		case old.Seen(d.Hash) && v.declared(d.Name, old.Wanted()):
			// The pod has an old file: it follows the catalog.
		case old.Live != nil && old.Live.Hash == d.Hash && !old.Live.Frozen:
			c.New, _ = Cancel(old, by)
		default:
			c.New, _ = Start(old, v.Pipeline, d, by)
			c.Changed = true
		}
		if c.New != nil {
			changes = append(changes, c)
		}
	}
	return changes
}

// used reports whether the declared collection belongs to another projection.
func (v View) used(d Declared) bool {
	for name, e := range v.Entries {
		if name != d.Name && e.Uses(d.Collection) {
			return true
		}
	}
	return false
}

// declared reports whether an alive pod declares the projection with that hash.
func (v View) declared(name, hash string) bool {
	return slices.ContainsFunc(v.Alive, func(r Registration) bool {
		return slices.Contains(r.Declares, Declaration{Projection: name, Hash: hash})
	})
}

// Undeclared gives the projections that none of the registrations declares and that are
// not retired.
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

// Target is a generation that pods fold events into.
type Target struct {
	Projection string
	Generation int64
	Definition
	// Collection is where its documents are now: the shadow while it is built. It is not
	// always the collection of the definition.
	Collection string
	// Building says that nobody reads it yet, so it never keeps an event back.
	Building bool
	// GivenUp is the hash of the definition that was to take the place of this live one, and
	// was given up by an operator; empty for none.
	GivenUp string
	// Defers says that an event is settled without this generation if the generation lacks
	// earlier ones: its aggregate will be folded by a job that has not begun yet.
	Defers bool
}

// Targets are the generations that every pod folds events into, as far as it can: live
// ones, and those being built.
func Targets(entries map[string]*Entry) []Target {
	var targets []Target
	for name, e := range entries {
		if e.RetiredAt != nil {
			continue
		}
		if live := e.Live; live != nil && !live.Frozen {
			target := Target{Projection: name, Generation: live.Generation, Definition: live.Definition, Collection: live.Collection}
			if e.GivenUp != nil {
				target.GivenUp = e.GivenUp.Hash
			}
			targets = append(targets, target)
		}
		if b := e.Building; b != nil && b.Ongoing() {
			targets = append(targets, Target{Projection: name, Generation: b.Generation, Definition: b.Definition, Collection: b.Shadow, Building: true, Defers: b.State == Building})
		}
	}
	slices.SortFunc(targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.Generation, b.Generation))
	})
	return targets
}

// Refusal is the error of a pod whose declaration changes a projection, if changes are to
// be confirmed. difference are the lines of the two definitions that differ.
func (c Change) Refusal(difference []string) error {
	text := ""
	for _, line := range difference {
		text += "\n  " + line
	}
	return fmt.Errorf("projection %s is declared with definition %s, and the catalog has %s:%s\nTo rebuild it, run: projector projections rebuild %s", c.Declared.Name, c.Declared.Hash, c.Old.Wanted(), text, c.Declared.Name)
}
