package tracing

// The names of OpenTelemetry's semantic conventions, version 1.43.0. The conventions for
// messaging and some for databases are still in development: a new version changes names
// here and nowhere else.
// https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
// https://opentelemetry.io/docs/specs/semconv/messaging/azure-messaging/
// https://opentelemetry.io/docs/specs/semconv/db/mongodb/
const (
	schemaURL = "https://opentelemetry.io/schemas/1.43.0"

	// Of the resource; stable since 1.0.
	keyServiceName     = "service.name"
	keyServiceVersion  = "service.version"
	keyServiceInstance = "service.instance.id" // in development in 1.43.0

	// Stable since 1.21.
	keyServerAddress = "server.address"
	keyServerPort    = "server.port"
	keyErrorType     = "error.type"

	// In development in 1.43.0.
	keyMessagingSystem       = "messaging.system"
	keyMessagingDestination  = "messaging.destination.name"
	keyMessagingSubscription = "messaging.destination.subscription.name"
	keyMessagingOperation    = "messaging.operation.name"
	keyMessagingType         = "messaging.operation.type"
	keyMessagingMessageID    = "messaging.message.id"
	keyMessagingBodySize     = "messaging.message.body.size"
	keyMessagingBatchCount   = "messaging.batch.message_count"
	keyMessagingDeliveries   = "messaging.servicebus.message.delivery_count"
	keyMessagingEnqueued     = "messaging.servicebus.message.enqueued_time"
	valueServiceBus          = "servicebus"
	valueCreate              = "create"
	valueSend                = "send"
	valueProcess             = "process"

	// Stable since 1.33.
	keyDBSystem     = "db.system.name"
	keyDBNamespace  = "db.namespace"
	keyDBCollection = "db.collection.name"
	keyDBOperation  = "db.operation.name"
	keyDBBatchSize  = "db.operation.batch.size"
	keyDBStatus     = "db.response.status_code"
	valueMongoDB    = "mongodb"
)

// The attributes of this project.
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
