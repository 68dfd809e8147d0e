package catalog

import (
	"fmt"
	"slices"
)

// WhatDropped and WhatAllowed are the changes that only operators make.
const (
	WhatDropped = "dropped"
	whatAllowed = "promotion allowed"
)

// Allow lets the building generation be promoted although some aggregates are parked, or
// some live read models have no events. It returns an error if nothing is being built.
func Allow(e *Entry, allowed Allowed, by Author) (*Entry, error) {
	if e.Building == nil {
		return nil, fmt.Errorf("projection %s builds no generation", e.Name)
	}
	next := e.copy()
	next.Building.Allowed = allowed
	next.record(next.Building.Generation, next.Building.Hash, whatAllowed, by)
	return next, nil
}

// GiveUp cancels the building generation, or removes a failed one, although pods declare
// its definition. The pods follow the live generation until the next build starts. GiveUp
// returns an error if nothing is being built, if the generation is being promoted, or if the
// live generation is frozen: no pod would write it.
func GiveUp(e *Entry, by Author) (*Entry, error) {
	if e.Live != nil && e.Live.Frozen {
		return nil, fmt.Errorf("the live generation of projection %s is from before it was retired, and no pod writes it: remove the declaration of the projection instead; a build that has failed is repeated by \"projector projections rebuild\"", e.Name)
	}
	next, err := Cancel(e, by)
	if err != nil {
		return nil, err
	}
	if e.Live == nil || e.Live.Hash != e.Building.Hash {
		next.GivenUp = &GivenUp{Hash: e.Building.Hash, At: by.At, Who: by.Who, Why: by.Why}
	}
	return next, nil
}

// BeginDrop returns the entry of a projection before the collections are deleted: those
// in its Left and, if it is retired, its live one. A retired projection keeps only its
// generation numbers and its history, so it is built anew if it is declared again. The
// collections stay in the entry until [EndDrop], so that an interrupted drop can be
// repeated.
func BeginDrop(e *Entry, collections []string, by Author) *Entry {
	next := e.copy()
	if e.RetiredAt != nil {
		next.Live, next.Building, next.GivenUp, next.Left, next.Garbage = nil, nil, nil, nil, nil
		for _, collection := range collections {
			next.Left = append(next.Left, Left{Collection: collection, Generation: e.Generations, Since: by.At})
		}
	}
	next.Dropping = slices.Clone(collections)
	next.record(e.Generations, e.Wanted(), WhatDropped, by)
	return next
}

// EndDrop returns the entry after the collections are deleted.
func EndDrop(e *Entry, collections []string) *Entry {
	next := e.copy()
	next.Dropping = nil
	next.Left = slices.DeleteFunc(next.Left, func(l Left) bool { return slices.Contains(collections, l.Collection) })
	return next
}

// Dropped reports whether a projection has neither data nor a build.
func (e *Entry) Dropped() bool { return e.Live == nil && e.Building == nil }
