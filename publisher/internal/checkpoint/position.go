package checkpoint

import "go.mongodb.org/mongo-driver/v2/bson"

// Position is a place to resume from. Exactly one of these holds:
//
//   - Scan is active: continue scanning the event store after it.
//   - Token is set: resume the change stream after it.
//   - only ClusterTime is set: start the change stream at that time.
//   - nothing is set, the zero value: nothing has been published.
type Position struct {
	// Token is a change stream's resume token, opaque.
	Token bson.Raw
	// ClusterTime is the time of the event of Token or, without a Token, the time to start
	// at. It may be zero (unknown) with the token of an idle stream; the stored time then
	// stays.
	ClusterTime bson.Timestamp
	// Scan is the progress of a scan.
	Scan Scan
	// CollectionUUID is the UUID of the position's collection, in hexadecimal digits. Empty
	// means the UUID that is already recorded.
	CollectionUUID string
	// Begin says that earlier changes are never published: the position is where a stream
	// begins. Only a position with a ClusterTime can have it. It is saved, and a claim gives it
	// as [Claim.Since].
	Begin bool
}

// IsZero reports whether p is no position.
func (p Position) IsZero() bool {
	return len(p.Token) == 0 && p.ClusterTime.IsZero() && !p.Scan.Active()
}

// Scan is the progress of a scan of the event store by aggregateId and eventId.
type Scan struct {
	// OperationTime was noted before the scan began. The change stream starts there when
	// the scan has ended.
	OperationTime bson.Timestamp `bson:"operationTime"`
	// AggregateID and EventID are of the last event that the scan published. A zero
	// AggregateID.Type means that it published none yet.
	AggregateID bson.RawValue `bson:"aggregateId,omitempty"`
	EventID     int64         `bson:"eventId,omitempty"`
	// Lap is the additional state of an interrupted or long scan; nil means that the scan
	// began at the first event and that the stream starts at OperationTime.
	Lap *Lap `bson:"lap,omitempty"`
}

// Lap is one pass over the whole event store: from an event to the end, and then from the
// beginning to that event. A Lap is immutable; another Lap replaces it. The zero value
// begins at the first event.
type Lap struct {
	// Token, if it is set, is where the change stream starts when the scan is over: earlier
	// changes of the scanned part are published.
	Token bson.Raw `bson:"token,omitempty"`
	// FromAggregateID and FromEventID are the event after which the lap began. A zero
	// FromAggregateID.Type means the beginning.
	FromAggregateID bson.RawValue `bson:"fromAggregateId,omitempty"`
	FromEventID     int64         `bson:"fromEventId,omitempty"`
	// Wrapped says that the lap has reached the end of the store and continues from the
	// beginning to From.
	Wrapped bool `bson:"wrapped,omitempty"`
	// Losses counts how often the oplog lost the stream's start during the scan.
	Losses int `bson:"losses,omitempty"`
	// Since, if it is not zero, is where the stream began. Older events do not belong to it.
	Since bson.Timestamp `bson:"since,omitempty"`
}

// Active reports whether there is a scan to continue.
func (s Scan) Active() bool { return !s.OperationTime.IsZero() }

// After returns the first cluster time that a scan does not cover. A stream that starts at
// the noted time itself would show the change that replaced a collection again. The
// returned time can be later than the cluster's; the server then waits for it
// (async_results_merger.cpp).
func After(noted bson.Timestamp) bson.Timestamp {
	return bson.Timestamp{T: noted.T, I: noted.I + 1}
}
