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
}

// IsZero says that p is no position.
func (p Position) IsZero() bool {
	return len(p.Token) == 0 && p.ClusterTime.IsZero() && !p.Scan.Active()
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
}

// Active says that there is a scan to go on with.
func (s Scan) Active() bool { return !s.OperationTime.IsZero() }
