package event

// Fields names where the contract's values stand in a source document. All of
// them are top-level field names. The zero value is invalid; start from
// [DefaultFields].
type Fields struct {
	AggregateID   string
	AggregateType string
	EventID       string
	EventType     string
	Timestamp     string
	Payload       string
	Metadata      string
}
