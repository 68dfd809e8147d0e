package catalog

import (
	"fmt"
	"slices"
	"time"
)

// Author says who changes an entry, why and when.
type Author struct {
	Who, Why string
	At       time.Time
}

// The changes of a projection that its history records.
const (
	whatCreated    = "created"
	whatStarted    = "started"
	WhatSuperseded = "superseded"
	WhatCancelled  = "cancelled"
	whatFailed     = "failed"
	whatPromoted   = "promoted"
	whatRetired    = "retired"
	whatReturned   = "declared again"
)

func (e *Entry) record(generation int64, hash, what string, by Author) {
	e.History = append(e.History, Record{Generation: generation, Hash: hash, What: what, At: by.At, Who: by.Who, Why: by.Why})
	if extra := len(e.History) - maxHistory; extra > 0 {
		e.History = slices.Delete(e.History, 0, extra)
	}
}

// Create returns the entry of a projection that is live at once, because the event store is empty.
func Create(pipeline string, d Declared, by Author) *Entry {
	e := &Entry{Name: d.Name, Pipeline: pipeline, Generations: First}
	e.Live = &Live{Generation: First, Definition: d.Definition, Since: by.At}
	e.record(First, d.Hash, whatCreated, by)
	return e
}

// Start begins to build a definition as the next generation. Its number is the time in
// milliseconds, or one more than the highest that was used: so no number is used twice, also
// after the state database was lost. It supersedes a build in progress. e is nil for a projection
// without an entry: the watermarks of the generation that was used are removed then. Start returns
// an error while a generation is being promoted.
func Start(e *Entry, pipeline string, d Declared, used int64, by Author) (*Entry, error) {
	if e == nil {
		e = &Entry{Name: d.Name, Pipeline: pipeline}
		if used > 0 {
			e.Garbage = []Garbage{{Generation: used, Since: by.At}}
		}
	}
	next := e.copy()
	if err := next.discard(WhatSuperseded, by); err != nil {
		return nil, err
	}
	if next.RetiredAt != nil {
		next.RetiredAt = nil
		if next.Live != nil {
			next.Live.Frozen = true
		}
		next.record(next.Generations, d.Hash, whatReturned, by)
	}
	next.Generations = max(by.At.UnixMilli(), next.Generations+1, used+1)
	if next.Live == nil || next.Live.Hash != d.Hash {
		next.GivenUp = nil // Otherwise the pods would replace this build of the live definition.
	}
	next.Building = &Build{
		Generation: next.Generations, Definition: d.Definition, Shadow: shadowName(e.Name, next.Generations),
		State: Building, StartedAt: by.At, Who: by.Who, Why: by.Why,
	}
	next.record(next.Generations, d.Hash, whatStarted, by)
	return next, nil
}

// Cancel cancels the building generation because the live definition is declared again.
// It returns an error if nothing is being built or if the generation is being promoted.
func Cancel(e *Entry, by Author) (*Entry, error) {
	if e.Building == nil {
		return nil, fmt.Errorf("projection %s builds no generation", e.Name)
	}
	next := e.copy()
	if err := next.discard(WhatCancelled, by); err != nil {
		return nil, err
	}
	return next, nil
}

// discard moves the building generation, if there is one, to the garbage.
func (e *Entry) discard(what string, by Author) error {
	b := e.Building
	if b == nil {
		return nil
	}
	if b.State == Promoting {
		return fmt.Errorf("generation %d of projection %s is being promoted: try again in a moment", b.Generation, e.Name)
	}
	e.record(b.Generation, b.Hash, what, by)
	e.Garbage = append(e.Garbage, Garbage{Generation: b.Generation, Shadow: b.Shadow, Jobs: b.Jobs, Since: by.At})
	e.Building = nil
	return nil
}

// Retire records that no pod declares the projection any more, and cancels a build in
// progress. It returns an error while a generation is being promoted.
func Retire(e *Entry, by Author) (*Entry, error) {
	next := e.copy()
	if err := next.discard(WhatCancelled, by); err != nil {
		return nil, err
	}
	at := by.At
	next.RetiredAt, next.GivenUp = &at, nil
	next.record(next.Generations, next.Wanted(), whatRetired, by)
	return next, nil
}

// Fail ends the build for a reason. The live generation does not change.
func Fail(e *Entry, reason string, by Author) *Entry {
	next := e.copy()
	next.Building.State, next.Building.Reason = Failed, reason
	by.Why = reason
	next.record(next.Building.Generation, next.Building.Hash, whatFailed, by)
	return next
}

// Promote makes the building generation the live one. The data of the previous live
// generation become garbage. If it had a collection with another name, that collection is
// kept in Left.
func Promote(e *Entry, by Author) *Entry {
	next := e.copy()
	b := next.Building
	if old := next.Live; old != nil {
		next.Garbage = append(next.Garbage, Garbage{Generation: old.Generation, Since: by.At})
		if old.Collection != b.Collection {
			next.Left = append(next.Left, Left{Collection: old.Collection, Generation: old.Generation, Since: by.At})
		}
	}
	next.Left = slices.DeleteFunc(next.Left, func(l Left) bool { return l.Collection == b.Collection })
	next.Live = &Live{Generation: b.Generation, Definition: b.Definition, Since: by.At}
	next.Building = nil
	by.Who, by.Why = b.Who, b.Why
	next.record(b.Generation, b.Hash, whatPromoted, by)
	return next
}
