package verify

import (
	"time"
)

// Kind is what is wrong with a read model.
type Kind string

// The kinds.
const (
	// Different: the document is not the fold of its events.
	Different Kind = "different"
	// TypeOnly: only types of numbers differ, and their values are equal.
	TypeOnly Kind = "type only"
	// Missing: there is no document although the fold has one.
	Missing Kind = "missing"
	// Extra: there is a document, or a watermark, of events that the store does not have.
	Extra Kind = "extra"
	// Behind: the watermark has been lower than the last event for longer than the grace
	// period, and the aggregate is not parked.
	Behind Kind = "behind"
	// OldGeneration: the document belongs to another generation.
	OldGeneration Kind = "old generation"
	// Parked: the aggregate is behind because it is parked. That is information.
	Parked Kind = "parked"
)

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{Different, TypeOnly, Missing, Extra, Behind, OldGeneration, Parked}
}

// The other counts of a job.
const (
	// CountEvents are the events that were compared, the unit of a job's total.
	CountEvents = "events"
	// CountAggregates are the aggregates that were looked at.
	CountAggregates = "aggregates"
	// CountRepaired are the findings that a repair has put right.
	CountRepaired = "repaired"
)

// Wrong is how many findings the counts of a job have that say that a read model is
// wrong.
func Wrong(counts map[string]int64) int64 {
	wrong := int64(0)
	for _, kind := range Kinds() {
		if kind != Parked {
			wrong += counts[string(kind)]
		}
	}
	return wrong
}

// Finding is one read model that is wrong, or parked.
type Finding struct {
	ID          string `bson:"_id" json:"-"`
	Job         string `bson:"job" json:"job"`
	Projection  string `bson:"projection" json:"projection"`
	Generation  int64  `bson:"generation" json:"generation"`
	AggregateID string `bson:"aggregateId" json:"aggregateId"`
	Kind        Kind   `bson:"kind" json:"kind"`
	// Watermark is that of the read model, and Head the last event of the aggregate that
	// concerns the projection, when it was looked at.
	Watermark int64 `bson:"watermark" json:"watermark"`
	Head      int64 `bson:"head" json:"head"`
	// Detail says more in words; it may be empty.
	Detail string `bson:"detail,omitempty" json:"detail,omitempty"`
	// Differences are the first fields that differ, and More how many others do.
	Differences []Difference `bson:"differences,omitempty" json:"differences,omitempty"`
	More        int          `bson:"more,omitempty" json:"more,omitempty"`
	At          time.Time    `bson:"at" json:"at"`
	// Repaired says that the read model was repaired and is right since; RepairError why
	// it could not be.
	Repaired    bool   `bson:"repaired,omitempty" json:"repaired,omitempty"`
	RepairError string `bson:"repairError,omitempty" json:"repairError,omitempty"`

	// wrongContent says that the document must not be folded on from.
	wrongContent bool
}
