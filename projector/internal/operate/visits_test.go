package operate

import "go.mongodb.org/mongo-driver/v2/bson"

const visitsYAML = `
projections:
  - name: visits
    collection: visits
    on:
      Came:
        inc: {count: "1"}
        set: {last: payload.at, strict: payload.n / payload.n}
`

// came returns an event of visitsYAML; with n = 0, its expression fails.
func came(aggregate any, id, n int64) bson.D {
	return bson.D{
		{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Came"},
		{Key: "payload", Value: bson.D{{Key: "at", Value: id}, {Key: "n", Value: n}}},
	}
}
