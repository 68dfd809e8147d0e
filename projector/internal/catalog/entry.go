package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// First is the number of a projection's first generation. Stored data without a number
// belong to it.
const First int64 = 1

// State is the state of a building generation.
type State string

// The states of a building generation. See the package documentation for the transitions.
const (
	// Building: the aggregates are folded from the event store.
	Building State = "building"
	// CatchingUp: the aggregates that pods without this definition left behind are folded.
	CatchingUp State = "catching up"
	// Verifying: the new collection is compared with the fold of its events.
	Verifying State = "verifying"
	// Promoting: the new collection takes the name of the old one.
	Promoting State = "promoting"
	// Failed: the generation will not become live. The live one is untouched.
	Failed State = "failed"
)

// Definition is the definition of a generation.
type Definition struct {
	Hash string `bson:"hash"`
	// Text is the canonical definition.
	Text string `bson:"definition"`
	// Collection is the name that readers use.
	Collection string `bson:"collection"`
	// Deletes is whether the projection may delete documents.
	Deletes bool `bson:"deletes"`
	// InCode is set if the definition is Go code, so only a pod with that code can fold
	// by it.
	InCode bool `bson:"inCode"`
}

// Declared is a projection as a pod declares it.
type Declared struct {
	Name string
	Definition
}

// Projection is the part of a compiled projection that the catalog stores: the catalog is below
// package projection.
type Projection interface {
	Name() string
	Hash() string
	Definition() string
	Collection() string
	Deletes() bool
	InCode() bool
}

// Declare returns projections as a pod declares them.
func Declare[P Projection](projections ...P) []Declared {
	all := make([]Declared, len(projections))
	for i, p := range projections {
		all[i] = Declared{p.Name(), Definition{Hash: p.Hash(), Text: p.Definition(), Collection: p.Collection(), Deletes: p.Deletes(), InCode: p.InCode()}}
	}
	return all
}

// Live is the generation that readers see.
type Live struct {
	Generation int64 `bson:"generation"`
	Definition `bson:",inline"`
	Since      time.Time `bson:"since"`
	// Frozen is set if the projection was retired and is declared again. No pod writes
	// the generation; readers use it until the new one replaces it.
	Frozen bool `bson:"frozen,omitempty"`
}

// JobIDs are the ids of a building generation's jobs; empty before they are created.
type JobIDs struct {
	Build  string `bson:"build,omitempty"`
	Sweep  string `bson:"sweep,omitempty"`
	Verify string `bson:"verify,omitempty"`
}

// Build is a generation that is being built, or whose build has failed.
type Build struct {
	Generation int64 `bson:"generation"`
	Definition `bson:",inline"`
	// Shadow is the collection that it is built in.
	Shadow string `bson:"shadow"`
	// UUID is the UUID of the shadow collection; empty until the collection exists. No
	// pod writes the generation before that.
	UUID  bson.Binary `bson:"uuid,omitempty"`
	State State       `bson:"state"`
	// Reason says why the generation failed, or what it waits for.
	Reason string `bson:"reason,omitempty"`
	Jobs   JobIDs `bson:"jobs"`
	// Round counts the rounds of sweeps and verifications. It is part of the ids of their
	// jobs.
	Round int `bson:"round,omitempty"`
	// Repaired is set if the last verification has found and repaired something.
	Repaired bool    `bson:"repaired,omitempty"`
	Allowed  Allowed `bson:",inline"`
	// Parked is the number of parked aggregates, and Archived that of live read models
	// without events, that prevent the promotion.
	Parked   int64 `bson:"parked,omitempty"`
	Archived int64 `bson:"archived,omitempty"`
	// Pause is the token that pods write into their registration after they have paused. While
	// the generation is verified, any value announces its promotion.
	Pause     string    `bson:"pause,omitempty"`
	StartedAt time.Time `bson:"startedAt"`
	Who       string    `bson:"who,omitempty"`
	Why       string    `bson:"why,omitempty"`
}

// Allowed is what the promotion of a generation tolerates.
type Allowed struct {
	// Parked is the number of parked aggregates.
	Parked int64 `bson:"allowParked,omitempty"`
	// Archived is the number of live read models that the new generation does not have,
	// because the event store has no events of their aggregates.
	Archived int64 `bson:"allowMissing,omitempty"`
}

// Prepared reports whether the shadow collection exists, so that pods can write the
// generation.
func (b *Build) Prepared() bool { return len(b.UUID.Data) > 0 }

// Ongoing reports whether the shadow collection exists and the build has not failed.
func (b *Build) Ongoing() bool { return b.Prepared() && b.State != Failed }

// GivenUp is a definition whose build an operator has cancelled.
type GivenUp struct {
	Hash string    `bson:"hash" json:"hash"`
	At   time.Time `bson:"at" json:"at"`
	Who  string    `bson:"who,omitempty" json:"who,omitempty"`
	Why  string    `bson:"why,omitempty" json:"why,omitempty"`
}

// String returns the decision as one line.
func (g GivenUp) String() string {
	text := "the build of definition " + g.Hash + " was cancelled"
	if g.Who != "" {
		text += " by " + g.Who
	}
	if g.Why != "" {
		text += ": " + g.Why
	}
	return text
}

// Left is a collection that a projection no longer uses, for example because its
// definition names another one. It is kept until an operator drops it.
type Left struct {
	Collection string    `bson:"collection"`
	Generation int64     `bson:"generation"`
	Since      time.Time `bson:"since"`
}

// Garbage is a generation whose data will be removed.
type Garbage struct {
	Generation int64 `bson:"generation"`
	// Shadow is its collection, if it never became live.
	Shadow string `bson:"shadow,omitempty"`
	Jobs   JobIDs `bson:"jobs"`
	// Since is when the generation became garbage, Removed when its data were removed for
	// the first time. They are removed again later, because a pod that was suspended may
	// have written some in between.
	Since   time.Time  `bson:"since"`
	Removed *time.Time `bson:"removed,omitempty"`
}

// Record is one line of a projection's history.
type Record struct {
	Generation int64     `bson:"generation" json:"generation"`
	Hash       string    `bson:"hash" json:"hash"`
	What       string    `bson:"what" json:"what"`
	At         time.Time `bson:"at" json:"at"`
	Who        string    `bson:"who,omitempty" json:"who,omitempty"`
	Why        string    `bson:"why,omitempty" json:"why,omitempty"`
}

// maxHistory bounds the history of a projection.
const maxHistory = 20

// Entry is the catalog entry of a projection. Treat it as immutable: functions that
// change an entry return a new one.
type Entry struct {
	// A write sets all fields, so that none is left out if it is empty.
	Name string `bson:"_id"`
	// Pipeline is the pipeline that owns the projection.
	Pipeline string `bson:"pipeline"`
	// Revision counts the writes. It is 0 for an entry that is not stored yet.
	Revision int64 `bson:"revision"`
	// Generations is the highest generation number used so far.
	Generations int64  `bson:"generations"`
	Live        *Live  `bson:"live"`
	Building    *Build `bson:"building"`
	// GivenUp is the declared definition whose build an operator cancelled; nil for none.
	// No pod starts building it. The next build of another definition than the live one clears
	// the field.
	GivenUp *GivenUp `bson:"givenUp"`
	// ErasedAt is when the first erasure of an aggregate without events was announced, by the clock of
	// the operator. From then on, pods read the watermark before they create a read model.
	ErasedAt *time.Time `bson:"erasedAt"`
	// RetiredAt is set while no pod declares the projection.
	RetiredAt *time.Time `bson:"retiredAt"`
	Left      []Left     `bson:"left"`
	// Dropping are the collections that an operator's command is deleting.
	Dropping []string  `bson:"dropping"`
	Garbage  []Garbage `bson:"garbage"`
	History  []Record  `bson:"history"`
	// Unreadable is set by commands if the record cannot be read and belongs to another event
	// store. Then the entry has only Name and Pipeline.
	Unreadable error `bson:"-"`
}

// Definition returns the definition that readers see or, before there is a live generation, that
// which is being built; zero for none.
func (e *Entry) Definition() Definition {
	switch {
	case e.Live != nil:
		return e.Live.Definition
	case e.Building != nil:
		return e.Building.Definition
	}
	return Definition{}
}

// Wanted returns the hash of the building definition, or else of the live one; empty for
// none.
func (e *Entry) Wanted() string {
	switch {
	case e.Building != nil:
		return e.Building.Hash
	case e.Live != nil:
		return e.Live.Hash
	}
	return ""
}

// Seen reports whether the projection has had a definition before, or has it now.
func (e *Entry) Seen(hash string) bool {
	return e.Wanted() == hash || e.Live != nil && e.Live.Hash == hash ||
		slices.ContainsFunc(e.History, func(r Record) bool { return r.Hash == hash })
}

// Replaceable reports whether the generation that is being built can replace the live one at any
// time: every event is folded into both.
func (e *Entry) Replaceable() bool {
	return e.Live != nil && e.Building != nil && e.Building.Ongoing() && e.Building.State != Building
}

// HasGivenUp reports whether an operator has cancelled the build of a definition, so that
// pods that declare it follow the live generation.
func (e *Entry) HasGivenUp(hash string) bool {
	return e.GivenUp != nil && e.GivenUp.Hash == hash && e.RetiredAt == nil
}

// Status returns the state of the projection in words: live, the state of its build, retired,
// dropped, without data, or unreadable.
func (e *Entry) Status() string {
	switch {
	case e.Unreadable != nil:
		return "unreadable"
	case e.RetiredAt != nil && e.Dropped():
		return "dropped"
	case e.RetiredAt != nil:
		return "retired"
	case e.Dropped():
		return "without data"
	case e.Building != nil:
		return string(e.Building.State)
	}
	return "live"
}

// Queue returns the projections whose builds are in progress, in the order in which their
// coordinator advances them.
func Queue(entries map[string]*Entry) []string {
	var queue []string
	for name, e := range entries {
		if e.Building != nil && e.Building.State != Failed {
			queue = append(queue, name)
		}
	}
	writing := func(name string) int {
		if entries[name].Building.State == Promoting {
			return 0
		}
		return 1
	}
	slices.SortFunc(queue, func(a, b string) int {
		// The writes of a projection that is being promoted are paused.
		return cmp.Or(cmp.Compare(writing(a), writing(b)), entries[a].Building.StartedAt.Compare(entries[b].Building.StartedAt), cmp.Compare(a, b))
	})
	return queue
}

// Current returns the numbers of the live and the building generation.
func (e *Entry) Current() []int64 {
	numbers := []int64{}
	if e.Live != nil {
		numbers = append(numbers, e.Live.Generation)
	}
	if e.Building != nil {
		numbers = append(numbers, e.Building.Generation)
	}
	return numbers
}

// Numbers returns the numbers of the generations that can have data.
func (e *Entry) Numbers() []int64 {
	numbers := append(e.Current(), e.Generations)
	for _, g := range e.Garbage {
		numbers = append(numbers, g.Generation)
	}
	for _, r := range e.History {
		numbers = append(numbers, r.Generation)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// Uses reports whether a collection is the projection's live one, or is in its Left.
func (e *Entry) Uses(collection string) bool {
	return e.Live != nil && e.Live.Collection == collection ||
		slices.ContainsFunc(e.Left, func(l Left) bool { return l.Collection == collection })
}

// Abandons reports whether a collection is in Left, or was made by another build of the projection
// than the present one.
func (e *Entry) Abandons(collection string) bool {
	return strings.HasPrefix(collection, e.Name+shadowSuffix) && (e.Building == nil || e.Building.Shadow != collection) ||
		slices.ContainsFunc(e.Left, func(l Left) bool { return l.Collection == collection })
}

// copy returns a copy of the entry that the caller may change.
func (e *Entry) copy() *Entry {
	c := *e
	if e.Live != nil {
		live := *e.Live
		c.Live = &live
	}
	if e.Building != nil {
		building := *e.Building
		c.Building = &building
	}
	if e.GivenUp != nil {
		givenUp := *e.GivenUp
		c.GivenUp = &givenUp
	}
	c.Left, c.Garbage, c.History = slices.Clone(e.Left), slices.Clone(e.Garbage), slices.Clone(e.History)
	c.Dropping = slices.Clone(e.Dropping)
	return &c
}

// shadowSuffix stands between the name of a projection and the number of a generation.
const shadowSuffix = ".generation-"

// shadowName returns the name of the collection in which a generation of a projection is
// built.
func shadowName(projection string, generation int64) string {
	return fmt.Sprint(projection, shadowSuffix, generation)
}

// PromotionName returns the name of a shadow collection between its two renames. Because
// of the epoch, only one coordinator uses it.
func PromotionName(shadow string, epoch int64) string {
	return fmt.Sprintf("%s.promotion-%d", shadow, epoch)
}
