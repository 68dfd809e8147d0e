package generation

import (
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// First is the number of a projection's first generation. Its data do not name it.
const First int64 = 1

// State is where a building generation stands.
type State string

// The states of a building generation. See package rebuild for the way through them.
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

// States are all of them.
func States() []State { return []State{Building, CatchingUp, Verifying, Promoting, Failed} }

// Definition is what a generation folds by.
type Definition struct {
	Hash string `bson:"hash"`
	// Text is the canonical definition.
	Text string `bson:"definition"`
	// Collection is the name that readers use.
	Collection string `bson:"collection"`
	// Deletes is whether the projection may delete documents.
	Deletes bool `bson:"deletes"`
	// InCode says that only a pod with the code can fold by it.
	InCode bool `bson:"inCode"`
}

// Declared is a projection as a pod declares it.
type Declared struct {
	Name string
	Definition
}

// Live is the generation that readers see.
type Live struct {
	Generation int64 `bson:"generation"`
	Definition `bson:",inline"`
	Since      time.Time `bson:"since"`
	// Frozen says that nothing writes the generation any more, because the projection was
	// retired since. It waits for its replacement.
	Frozen bool `bson:"frozen,omitempty"`
	// Asked is as in [Build].
	Asked bool `bson:"asked,omitempty"`
}

// Jobs are the ids of a building generation's jobs; empty before they are created.
type Jobs struct {
	Build  string `bson:"build,omitempty"`
	Sweep  string `bson:"sweep,omitempty"`
	Verify string `bson:"verify,omitempty"`
}

// Build is a generation that is being built.
type Build struct {
	Generation int64 `bson:"generation"`
	Definition `bson:",inline"`
	// Shadow is the collection that it is built in.
	Shadow string `bson:"shadow"`
	// UUID is that of the shadow collection; empty before it is created. Nobody writes the
	// generation before that.
	UUID  bson.Binary `bson:"uuid,omitempty"`
	State State       `bson:"state"`
	// Reason says why the generation failed, or what it waits for.
	Reason string `bson:"reason,omitempty"`
	Jobs   Jobs   `bson:"jobs"`
	// Round counts the sweeps and verifications. It makes the ids of their jobs.
	Round int `bson:"round,omitempty"`
	// Repairing says that the present verification repairs what it finds, Repaired that
	// one has.
	Repairing bool `bson:"repairing,omitempty"`
	Repaired  bool `bson:"repaired,omitempty"`
	// AllowParked is how many parked aggregates do not hold the promotion back.
	AllowParked int64 `bson:"allowParked,omitempty"`
	// Parked is how many parked aggregates hold the promotion back.
	Parked int64 `bson:"parked,omitempty"`
	// Pause is what pods write into their registration when they have paused.
	Pause     string    `bson:"pause,omitempty"`
	StartedAt time.Time `bson:"startedAt"`
	Who       string    `bson:"who,omitempty"`
	Why       string    `bson:"why,omitempty"`
	// Asked says that an operator has asked for this definition, and that no pod has declared
	// it since. Until one does, pods with an older file follow it: that nobody declares it
	// is no rollback.
	Asked bool `bson:"asked,omitempty"`
}

// Prepared reports whether the shadow collection is there, so that pods write the
// generation.
func (b *Build) Prepared() bool { return len(b.UUID.Data) > 0 }

// Ongoing reports whether the build has neither failed nor waits for its collection.
func (b *Build) Ongoing() bool { return b.Prepared() && b.State != Failed }

// GivenUp is a definition whose build an operator has cancelled.
type GivenUp struct {
	Hash string    `bson:"hash"`
	At   time.Time `bson:"at"`
	Who  string    `bson:"who,omitempty"`
	Why  string    `bson:"why,omitempty"`
}

// Left is a collection that a projection has left, for example because it was declared
// with another one. It stays until the projection is dropped.
type Left struct {
	Collection string    `bson:"collection"`
	Generation int64     `bson:"generation"`
	Since      time.Time `bson:"since"`
}

// Garbage is a generation whose data are to be removed.
type Garbage struct {
	Generation int64 `bson:"generation"`
	// Shadow is its collection, if it never became live.
	Shadow string `bson:"shadow,omitempty"`
	Jobs   Jobs   `bson:"jobs"`
	// Since is when the generation was given up, Removed when its data were removed for
	// the first time. They are removed again later: a pod that was stopped for long may
	// have written some since.
	Since   time.Time  `bson:"since"`
	Removed *time.Time `bson:"removed,omitempty"`
}

// Record is one line of a projection's history.
type Record struct {
	Generation int64     `bson:"generation"`
	Hash       string    `bson:"hash"`
	What       string    `bson:"what"`
	At         time.Time `bson:"at"`
	Who        string    `bson:"who,omitempty"`
	Why        string    `bson:"why,omitempty"`
}

// maxHistory bounds the history of a projection.
const maxHistory = 20

// Coordinator is the pod that drives a projection's build. It is written apart from the
// rest of the entry.
type Coordinator struct {
	Pod string `bson:"pod,omitempty"`
	// Epoch counts the coordinators; it is the fence of their writes.
	Epoch int64     `bson:"epoch,omitempty"`
	Until time.Time `bson:"until,omitempty"`
}

// Entry is what the catalog knows of a projection. Treat it as immutable: the functions
// that change one give a new one.
type Entry struct {
	Name string `bson:"_id"`
	// Pipeline is whose projection it is.
	Pipeline string `bson:"pipeline"`
	// Revision counts the writes. It is 0 for an entry that is not stored yet.
	Revision int64 `bson:"revision"`
	// Generations is the highest number that was given to a generation.
	Generations int64  `bson:"generations"`
	Live        *Live  `bson:"live,omitempty"`
	Building    *Build `bson:"building,omitempty"`
	// GivenUp is the declared definition that an operator has given up; nil for none. No pod
	// builds it by itself. It ends when any definition is built.
	GivenUp *GivenUp `bson:"givenUp,omitempty"`
	// RetiredAt is set while no pod declares the projection.
	RetiredAt   *time.Time  `bson:"retiredAt,omitempty"`
	Left        []Left      `bson:"left,omitempty"`
	Garbage     []Garbage   `bson:"garbage,omitempty"`
	History     []Record    `bson:"history,omitempty"`
	Coordinator Coordinator `bson:"coordinator,omitempty"`
}

// Wanted is the hash of the definition that is, or is to become, live; empty for none.
func (e *Entry) Wanted() string {
	switch {
	case e.Building != nil:
		return e.Building.Hash
	case e.Live != nil:
		return e.Live.Hash
	}
	return ""
}

// asked reports whether the definition that is, or is to become, live waits for the first
// pod that declares it.
func (e *Entry) asked() bool {
	switch {
	case e.Building != nil:
		return e.Building.Asked && e.Building.State != Failed
	case e.Live != nil:
		return e.Live.Asked
	}
	return false
}

// Seen reports whether the projection has had a definition before.
func (e *Entry) Seen(hash string) bool {
	return e.Wanted() == hash || e.Live != nil && e.Live.Hash == hash ||
		slices.ContainsFunc(e.History, func(r Record) bool { return r.Hash == hash })
}

// HasGivenUp reports whether an operator has given a definition up, so that pods that
// declare it follow the live generation.
func (e *Entry) HasGivenUp(hash string) bool {
	return e.GivenUp != nil && e.GivenUp.Hash == hash && e.RetiredAt == nil
}

// Uses reports whether a collection is the live one of the projection, or was left by it.
func (e *Entry) Uses(collection string) bool {
	return e.Live != nil && e.Live.Collection == collection ||
		slices.ContainsFunc(e.Left, func(l Left) bool { return l.Collection == collection })
}

// copy is an entry that may be changed.
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
	return &c
}

// ShadowName is the collection that a generation of a projection is built in. It holds
// the projection's name, not its collection's: a renamed projection and its predecessor
// may build for one collection at the same time.
func ShadowName(projection string, generation int64) string {
	return fmt.Sprintf("%s.generation-%d", projection, generation)
}

// PromotionName is what a shadow collection is called between its two renames. The epoch
// makes it the coordinator's own.
func PromotionName(shadow string, epoch int64) string {
	return fmt.Sprintf("%s.promotion-%d", shadow, epoch)
}
