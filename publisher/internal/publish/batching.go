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
	// BatchingAuto is decided by the topic's properties, see [Batching.Resolve].
	BatchingAuto Batching = "auto"
	// BatchingOff sends each event as a message of its own.
	BatchingOff Batching = "off"
	// BatchingSession fills a batch with events of one session key.
	BatchingSession Batching = "session"
	// BatchingMixed fills a batch with events of any session keys.
	BatchingMixed Batching = "mixed"
)

// ParseBatching reads a policy's name.
func ParseBatching(name string) (Batching, error) {
	switch b := Batching(name); b {
	case BatchingAuto, BatchingOff, BatchingSession, BatchingMixed:
		return b, nil
	}
	return "", fmt.Errorf("read batching policy %q: want auto, off, session or mixed", name)
}

// TopicProperties are those of a topic that decide how it may be sent to.
type TopicProperties struct {
	// Partitioned: the topic spreads its messages over partitions by PartitionKey.
	Partitioned bool
	// DuplicateDetection: the topic drops a MessageId that it has seen.
	DuplicateDetection bool
	// MaxMessageBytes is the largest single message; 0 if it is not known. It
	// informs only: the link itself says what fits.
	MaxMessageBytes int64
}

// TopicReader reads the topic's properties, where the credentials may (the Manage
// claim); app implements it over the administration API.
type TopicReader interface {
	TopicProperties(ctx context.Context) (TopicProperties, error)
}

// Resolve decides what [BatchingAuto] means for a topic; any other policy is what
// it is. topic is nil if the properties could not be read: then it is
// [BatchingMixed], because a topic that does not take that refuses the batch as a
// whole, and the dispatcher falls back by itself without losing or doubling one
// event.
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

// degraded is the policy after the topic has refused a batch of b.
func (b Batching) degraded(refusal Fault) Batching {
	if b == BatchingMixed && refusal != FaultBatch {
		return BatchingSession
	}
	return BatchingOff
}
