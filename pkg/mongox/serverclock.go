package mongox

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Now is the server's time in an aggregation expression, also in that of an update.
// Leases are compared with it, because the clocks of pods differ.
const Now = "$$NOW"

// FromNow is the expression for a time after [Now], or before it if d is negative. It is
// exact to the millisecond.
func FromNow(d time.Duration) bson.D {
	return bson.D{{Key: "$add", Value: bson.A{Now, d.Milliseconds()}}}
}

// Literal makes a value a literal in an expression.
func Literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }
