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
	// Begin says that ClusterTime is where a stream begins: earlier changes are never published.
	// A scan can have both, too. The time is saved, and a claim gives it as [Claim.Since].
	Begin bool
}

// IsZero reports whether p is no position.
func (p Position) IsZero() bool {
	return len(p.Token) == 0 && p.ClusterTime.IsZero() && !p.Scan.Active()
}

// Scan is the progress of a scan of the event store by aggregateId and eventId.
type Scan struct {
	// OperationTime is the time up to which the scan must have read everything. The change
	// stream starts right after it when the scan has ended, unless there is a Token.
	OperationTime bson.Timestamp `bson:"operationTime"`
	// AggregateID and EventID are of the last event that the scan published. A zero
	// AggregateID.Type means that it published none yet.
	AggregateID bson.RawValue `bson:"aggregateId,omitempty"`
	EventID     int64         `bson:"eventId,omitempty"`
	// Token, if it is set, is where the change stream starts when the scan has ended: earlier
	// changes of the scanned part are published. Its bytes never change.
	Token bson.Raw `bson:"token,omitempty"`
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
