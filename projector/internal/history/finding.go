package history

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	// Different: the document differs from the fold of its events.
	Different Kind = "different"
	// Missing: there is no document, but the fold has one, or an event before the watermark cannot
	// be folded.
	Missing Kind = "missing"
	// Extra: there is a document or a watermark for events that the store does not have.
	Extra Kind = "extra"
	// Behind: the watermark has been lower than the last event for longer than the grace
	// period, and the aggregate is not parked, or events before the parked one are missing.
	Behind Kind = "behind"
	// OldGeneration: the document belongs to another generation.
	OldGeneration Kind = "old generation"
	// Parked: the aggregate is parked, and has every event before the parked one. This is
	// not an error.
	Parked Kind = "parked"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Different, Missing, Extra, Behind, OldGeneration, Parked}
}

// The other counters of a job.
const (
	// CountLate counts, while a range is worked on, the aggregates that are behind and whose
	// grace period the range waits for when it has compared all others.
	CountLate = "late"
	// CountUnknown counts the aggregates that a job names and that neither the event store
	// nor the read models have.
	CountUnknown = "unknown"
	// CountRepaired counts the findings that were repaired.
	CountRepaired = "repaired"
	// CountUndelivered counts the findings that lack only the latest events of their
	// aggregate, as if the topic had not delivered them.
	CountUndelivered = "undelivered"
)

// Wrong returns the number of findings in a job's counts except those of kind Parked.
func Wrong(counts map[string]int64) int64 {
	wrong := int64(0)
	for _, kind := range Kinds() {
		if kind != Parked {
			wrong += counts[string(kind)]
		}
	}
	return wrong
}

// Finding is one read model that is wrong, or parked. It names fields and types, and never has
// values of the read model or of events.
type Finding struct {
	ID          string `bson:"_id" json:"-"`
	Job         string `bson:"job" json:"job"`
	Projection  string `bson:"projection" json:"projection"`
	Generation  int64  `bson:"generation" json:"generation"`
	AggregateID string `bson:"aggregateId" json:"aggregateId"`
	// Document is the _id of a document of a view that is not as its parts make it. AggregateID
	// is empty then.
	Document string `bson:"document,omitempty" json:"document,omitempty"`
	Kind     Kind   `bson:"kind" json:"kind"`
	// Watermark is the read model's watermark, and Head the aggregate's last event that
	// concerns the projection. Both are as of the check.
	Watermark int64 `bson:"watermark" json:"watermark"`
	Head      int64 `bson:"head" json:"head"`
	// Detail describes the finding; it may be empty.
	Detail string `bson:"detail,omitempty" json:"detail,omitempty"`
	// Differences are the first fields that differ, and More is the number of others.
	Differences []Difference `bson:"differences,omitempty" json:"differences,omitempty"`
	More        int          `bson:"more,omitempty" json:"more,omitempty"`
	At          time.Time    `bson:"at" json:"at"`
	// Repaired is set if the read model was repaired and was right afterwards.
	// RepairError is the reason why a repair failed.
	Repaired    bool   `bson:"repaired,omitempty" json:"repaired,omitempty"`
	RepairError string `bson:"repairError,omitempty" json:"repairError,omitempty"`

	// Undelivered is set if only the latest events are missing.
	Undelivered bool `bson:"undelivered,omitempty" json:"-"`

	// wrongContent is set if no writer must continue folding from the document.
	wrongContent bool
	// erased is set if the watermark is [model.Erased], and the aggregate has events again.
	erased bool
	// anew is set if the history begins with a snapshot, and the read model lacks events before it.
	anew bool
}

// WithoutValues describes an error without values of events and documents. The errors of
// expressions and of MongoDB can have such values.
func WithoutValues(err error) string {
	if failed, ok := errors.AsType[*projection.Error](err); ok {
		if failed.Reason == projection.ReasonMissing {
			return failed.Err.Error()
		}
		return fmt.Sprintf("event %d cannot be applied, reason %s: see \"projector explain\"", failed.EventID, failed.Reason)
	}
	if refused, ok := errors.AsType[mongo.ServerError](err); ok {
		return fmt.Sprintf("MongoDB refuses it with code %v: see the log of MongoDB", refused.ErrorCodes())
	}
	return err.Error()
}

// count adds the finding to the counts of a job or of a part of one.
func (f *Finding) count(counts map[string]int64) {
	counts[string(f.Kind)]++
	if f.Repaired {
		counts[CountRepaired]++
	}
	if f.Undelivered {
		counts[CountUndelivered]++
	}
}
