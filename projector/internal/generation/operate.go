package generation

import (
	"fmt"
)

// WhatDropped and WhatAllowed are what operators do, beside what pods do.
const (
	WhatDropped = "dropped"
	WhatAllowed = "parked aggregates allowed"
)

// Allow lets parked aggregates of the building generation not hold its promotion back, up
// to a number of them. It is an error if nothing is being built.
func Allow(e *Entry, parked int64, by Author) (*Entry, error) {
	if e.Building == nil {
		return nil, fmt.Errorf("projection %s builds no generation", e.Name)
	}
	next := e.copy()
	next.Building.AllowParked = parked
	next.record(next.Building.Generation, next.Building.Hash, WhatAllowed, by)
	return next, nil
}

// Drop is the entry of a retired projection whose data are gone. The entry stays for the
// numbers that it has given: the projection can be declared again, and is built anew then.
// It is an error if the projection is not retired.
func Drop(e *Entry, by Author) (*Entry, error) {
	if e.RetiredAt == nil {
		return nil, fmt.Errorf("projection %s is not retired: pods declare it, or have until a moment ago", e.Name)
	}
	next := e.copy()
	next.Live, next.Building, next.Left, next.Garbage = nil, nil, nil, nil
	next.record(e.Generations, e.Wanted(), WhatDropped, by)
	return next, nil
}

// DropLeft is the entry of a projection whose collections left behind are gone.
func DropLeft(e *Entry, by Author) *Entry {
	next := e.copy()
	next.Left = nil
	next.record(e.Generations, e.Wanted(), WhatDropped, by)
	return next
}

// Dropped reports whether a projection has neither data nor a build.
func (e *Entry) Dropped() bool { return e.Live == nil && e.Building == nil }
