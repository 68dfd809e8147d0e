package event

// Reason says how an event breaks the contract. The set of reasons is fixed, because
// metrics and the quarantine use them.
type Reason string

// The reasons.
const (
	ReasonMissingAggregateID Reason = "missing_aggregate_id"
	ReasonMissingEventID     Reason = "missing_event_id"
	ReasonMissingEventType   Reason = "missing_event_type"
	ReasonWrongType          Reason = "wrong_type"
	ReasonOutOfRange         Reason = "out_of_range"
	ReasonMalformed          Reason = "malformed"
	ReasonTooLarge           Reason = "too_large"
	// ReasonRefused: the event keeps the contract, but the topic does not accept its
	// message.
	ReasonRefused Reason = "refused"
)

// ContractError says that an event breaks the contract. It is permanent: another attempt
// gives the same error.
type ContractError struct {
	Reason Reason
	// Field is the source's field name, empty if the whole document is meant.
	Field string
	// Detail says what was found.
	Detail string
}

// Error gives the reason, then the field and the detail if they are set.
func (e *ContractError) Error() string {
	s := "event breaks the contract: " + string(e.Reason)
	if e.Field != "" {
		s += ": field " + e.Field
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}
