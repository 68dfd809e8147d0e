package generation

import (
	"fmt"
	"slices"
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

// GiveUp cancels the generation that is being built, or whose build has failed, although
// pods declare its definition. They follow the live generation until any definition is
// built. It is an error if nothing is being built, or if it is being promoted.
func GiveUp(e *Entry, by Author) (*Entry, error) {
	next, err := Cancel(e, by)
	if err != nil {
		return nil, err
	}
	if e.Live == nil || e.Live.Hash != e.Building.Hash {
		next.GivenUp = &GivenUp{Hash: e.Building.Hash, At: by.At, Who: by.Who, Why: by.Why}
	}
	return next, nil
}

// BeginDrop is the entry of a projection whose collections are about to be deleted. They
// are those that a projection has left behind, and those of a retired one. A retired
// projection keeps only the numbers that it has given: declared again, it is built anew.
// The collections stay in the entry until [EndDrop], so that a drop that was interrupted
// can be repeated.
func BeginDrop(e *Entry, collections []string, by Author) *Entry {
	next := e.copy()
	if e.RetiredAt != nil {
		next.Live, next.Building, next.GivenUp, next.Left, next.Garbage = nil, nil, nil, nil, nil
		for _, collection := range collections {
			next.Left = append(next.Left, Left{Collection: collection, Generation: e.Generations, Since: by.At})
		}
	}
	next.record(e.Generations, e.Wanted(), WhatDropped, by)
	return next
}

// EndDrop is the entry after the collections are gone.
func EndDrop(e *Entry, collections []string) *Entry {
	next := e.copy()
	next.Left = slices.DeleteFunc(next.Left, func(l Left) bool { return slices.Contains(collections, l.Collection) })
	return next
}

// Dropped reports whether a projection has neither data nor a build.
func (e *Entry) Dropped() bool { return e.Live == nil && e.Building == nil }
