package checkpoint

import "go.mongodb.org/mongo-driver/v2/bson"

// recovery is the stored form of a Scan.
type recovery struct {
	OperationTime bson.Timestamp `bson:"operationTime"`
	AggregateID   bson.RawValue  `bson:"aggregateId,omitempty"`
	EventID       int64          `bson:"eventId,omitempty"`
	// The following fields are a Lap; they are zero in a scan without interruptions.
	Token           bson.Raw       `bson:"token,omitempty"`
	FromAggregateID bson.RawValue  `bson:"fromAggregateId,omitempty"`
	FromEventID     int64          `bson:"fromEventId,omitempty"`
	Wrapped         bool           `bson:"wrapped,omitempty"`
	Losses          int            `bson:"losses,omitempty"`
	Since           bson.Timestamp `bson:"since,omitempty"`
}

func recoveryOf(s Scan) recovery {
	r := recovery{OperationTime: s.OperationTime, AggregateID: s.AggregateID, EventID: s.EventID}
	if s.Lap != nil {
		r.Token, r.Wrapped, r.Losses, r.Since = s.Lap.Token, s.Lap.Wrapped, s.Lap.Losses, s.Lap.Since
		r.FromAggregateID, r.FromEventID = s.Lap.FromAggregateID, s.Lap.FromEventID
	}
	return r
}

func (r *recovery) scan() Scan {
	s := Scan{OperationTime: r.OperationTime, AggregateID: r.AggregateID, EventID: r.EventID}
	if len(r.Token) > 0 || r.FromAggregateID.Type != 0 || r.Wrapped || r.Losses > 0 || !r.Since.IsZero() {
		s.Lap = &Lap{
			Token: r.Token, Wrapped: r.Wrapped, Losses: r.Losses, Since: r.Since,
			FromAggregateID: r.FromAggregateID, FromEventID: r.FromEventID,
		}
	}
	return s
}
