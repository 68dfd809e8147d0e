package tracing

// The attributes of this project. The others are of OpenTelemetry's package semconv. Those for
// messaging are in development: another version of that package has other names.
const (
	keyAggregateID   = "penstock.aggregate.id"
	keyAggregateType = "penstock.aggregate.type"
	keyEventID       = "penstock.event.id"
	keyEventType     = "penstock.event.type"
	keySessionID     = "penstock.session.id"
	keyClaimCheck    = "penstock.claim_check"
	keyEpoch         = "penstock.epoch"
	keyProjection    = "penstock.projection"
	keyGeneration    = "penstock.generation"
	keyFrom          = "penstock.watermark.from"
	keyTo            = "penstock.watermark.to"
	keyOutcome       = "penstock.outcome"
)
