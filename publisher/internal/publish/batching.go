package publish

import (
	"context"
	"fmt"
)

// Batching says how many events, of which session keys, one broker message may
// carry.
type Batching string

// The policies, by the names that configuration uses.
const (
	// BatchingAuto selects a policy by the topic's properties: see [Batching.Resolve].
	BatchingAuto Batching = "auto"
	// BatchingOff sends each event as a message of its own.
	BatchingOff Batching = "off"
	// BatchingSession fills a batch with events of one session key.
	BatchingSession Batching = "session"
	// BatchingMixed fills a batch with events of any session keys.
	BatchingMixed Batching = "mixed"
)

// ParseBatching parses the name of a policy.
func ParseBatching(name string) (Batching, error) {
	switch b := Batching(name); b {
	case BatchingAuto, BatchingOff, BatchingSession, BatchingMixed:
		return b, nil
	}
	return "", fmt.Errorf("read batching policy %q: want auto, off, session or mixed", name)
}

// TopicProperties are the properties of a topic that determine how events may be sent to
// it.
type TopicProperties struct {
	// Partitioned: the topic spreads its messages over partitions by PartitionKey.
	Partitioned bool
	// DuplicateDetection: the topic drops a MessageId that it has seen.
	DuplicateDetection bool
	// MaxMessageBytes is the largest single message; 0 if it is not known. It is
	// informative only: the link reports the limit that applies.
	MaxMessageBytes int64
}

// TopicReader reads the topic's properties, if the credentials allow it (the Manage claim).
// Package app implements it with the administration API.
type TopicReader interface {
	TopicProperties(ctx context.Context) (TopicProperties, error)
}

// Resolve gives the policy of [BatchingAuto] for a topic; it returns every other policy
// unchanged. topic is nil if the properties could not be read. The result is then
// [BatchingMixed]: a topic that does not allow it refuses each batch as a whole, and the
// dispatcher falls back to smaller batches without losing or repeating an event.
//
//	partitioned, duplicate detection   off      Microsoft: do not batch
//	                                            (azure-sdk-for-python#21955)
//	partitioned                        session  distinct keys are refused
//	                                            (amqpnetlite#120)
//	otherwise                          mixed    no restriction is documented
func (b Batching) Resolve(topic *TopicProperties) Batching {
	switch {
	case b != BatchingAuto && b != "":
		return b
	case topic == nil || !topic.Partitioned:
		return BatchingMixed
	case topic.DuplicateDetection:
		return BatchingOff
	default:
		return BatchingSession
	}
}

// degraded is the policy to use after the topic has refused a batch of policy b.
func (b Batching) degraded(refusal Fault) Batching {
	if b == BatchingMixed && refusal != FaultBatch {
		return BatchingSession
	}
	return BatchingOff
}
