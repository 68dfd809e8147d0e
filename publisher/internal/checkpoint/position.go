package checkpoint

import "go.mongodb.org/mongo-driver/v2/bson"

// Position is a place to resume from. Exactly one of these holds:
//
//   - Scan is active: go on scanning the event store after it.
//   - Token is set: resume the change stream after it.
//   - only ClusterTime is set: start the change stream at that time.
//   - nothing is set, the zero value: nothing has been published.
type Position struct {
	// Token is a change stream's resume token, opaque.
	Token bson.Raw
	// ClusterTime is that of the event that Token belongs to, or, without a Token,
	// the time to start at. With the token of an idle stream it may be zero:
	// unknown; the stored time then stays.
	ClusterTime bson.Timestamp
	// Scan is the progress of a scan.
	Scan Scan
	// CollectionUUID is that of the collection that the position belongs to, in hexadecimal
	// digits. Empty means the one that is recorded already.
	CollectionUUID string
}

// IsZero says that p is no position.
func (p Position) IsZero() bool {
	return len(p.Token) == 0 && p.ClusterTime.IsZero() && !p.Scan.Active()
}

// isSeam reports whether a mark at p is between a scan and something else.
func (p Position) isSeam() bool {
	return len(p.Token) == 0 && p.Scan.AggregateID.Type == 0
}

// Scan is how far a scan of the event store, by aggregateId and eventId, has come.
type Scan struct {
	// OperationTime was noted before the scan began: the change stream starts at it
	// when the scan is over.
	OperationTime bson.Timestamp
	// AggregateID and EventID are of the last event that the scan published. A zero
	// AggregateID.Type means that it published none yet.
	AggregateID bson.RawValue
	EventID     int64
	// Lap says what an interrupted or a long scan has to remember; nil means that the scan
	// began at the first event and that the stream starts at OperationTime.
	Lap *Lap
}

// Lap is one way through the whole event store: from an event to the end, and then from
// the beginning to that event. What is known of a lap does not change; another [Lap]
// takes its place. The zero value begins at the first event.
type Lap struct {
	// Token, if it is set, is where the change stream starts when the scan is over: what
	// is before it and belongs to the part that is scanned is published.
	Token bson.Raw
	// FromAggregateID and FromEventID are the event after which the lap began. A zero
	// FromAggregateID.Type means the beginning.
	FromAggregateID bson.RawValue
	FromEventID     int64
	// Wrapped says that the lap came to the end of the store and goes on from the
	// beginning to From.
	Wrapped bool
	// Losses counts how often the oplog lost the stream's start during the scan.
	Losses int
}

// Active says that there is a scan to go on with.
func (s Scan) Active() bool { return !s.OperationTime.IsZero() }
