package event

import "go.mongodb.org/mongo-driver/v2/bson"

// ReadPosition reads only aggregateId and eventId of doc, for example of an entry of the
// index over both. The result has those two keys and RawAggregateID. If one of them breaks
// the contract, the error is a [*ContractError], and the result has the other one if that
// is valid.
func (r *Reader) ReadPosition(doc bson.Raw) (Event, error) {
	ev := Event{Document: doc}
	values, err := r.scan(doc)
	if err != nil {
		return ev, err
	}
	err = r.readAggregateID(&ev, values[fieldAggregateID])
	if second := r.readEventID(&ev, values[fieldEventID]); err == nil {
		err = second
	}
	return ev, err
}
