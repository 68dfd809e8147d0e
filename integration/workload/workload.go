package workload

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Event is one domain event in the form that the event store keeps.
type Event struct {
	AggregateID   string    `bson:"aggregateId"`
	AggregateType string    `bson:"aggregateType"`
	EventID       int64     `bson:"eventId"`
	EventType     string    `bson:"eventType"`
	Timestamp     time.Time `bson:"timestamp"`
	Payload       bson.D    `bson:"payload"`
}

// Index returns the unique index that an event store needs.
func Index() mongo.IndexModel {
	return mongo.IndexModel{
		Keys:    bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(true),
	}
}

// Workload is a set of events with its projections and its oracle.
type Workload struct {
	// Events are in the order in which they must be stored. The events of an aggregate
	// are in eventId order.
	Events []Event
	// Projections is the projections file for the projector, in YAML.
	Projections []byte
	// Collections are the collections of read models of one aggregate. Those of views are not
	// among them.
	Collections []string
	Oracle
	// Change is a second version of the projections; nil if there is none.
	Change *Change
	// Erasure says which personal data the workload has; nil if it has none.
	Erasure *Erasure
}

// Erasure says where the personal data of a workload are.
type Erasure struct {
	// Collection has a read model of each person, and Values are its fields with personal data.
	Collection string
	Values     []string
	// Mask are the fields of the events with personal data.
	Mask []string
}

// Oracle computes the expected read models.
type Oracle struct {
	// Fold folds one aggregate. It gets at least one event, in eventId order.
	Fold Fold
	// Views are the read models of several aggregates.
	Views []View
}

// View is a projection whose documents are made of several aggregates.
type View struct {
	Projection, Collection string
	// AggregateTypes are the types of these aggregates.
	AggregateTypes []string
	// Fold computes all documents by their _id, without the fields lastUpdatedAt and
	// lastGeneration. It gets the events of each aggregate of these types, in eventId order.
	Fold func(histories [][]Event) map[string]bson.M
}

// Change is a version of a workload's projections in which some projections have a new
// definition, with the same name and collection. The new definitions need events that
// were projected long before.
type Change struct {
	// Projections is the whole projections file, in YAML, and Oracle that of all of its
	// projections.
	Projections []byte
	Oracle
	Changed []Changed
}

// Changed is a projection that has a new definition.
type Changed struct {
	// Collection has the documents of the projection.
	Projection, Collection string
	// Field is in each document of the new definition, and in none of the old one.
	Field string
	// Falsify is an update after which a document of the new definition is wrong, also after
	// later events.
	Falsify bson.D
}

// Fold computes the expected read model of one aggregate. It returns the collection and
// the document, without the fields that the projector adds. A nil document means that no
// document must be visible.
type Fold func(events []Event) (collection string, document bson.M)

// Aggregates counts the distinct aggregates among the events.
func (w *Workload) Aggregates() int {
	seen := make(map[string]struct{})
	for i := range w.Events {
		seen[w.Events[i].AggregateID] = struct{}{}
	}
	return len(seen)
}
