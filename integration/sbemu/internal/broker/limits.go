package broker

import (
	"fmt"
	"time"
)

// Limits are bounds of a whole namespace. A zero field is no bound.
type Limits struct {
	// Entities is how many queues and topics there may be.
	Entities int

	// TTL is the longest time to live of messages. It replaces longer ones.
	TTL time.Duration

	// DuplicateDetectionWindow is the longest one.
	DuplicateDetectionWindow time.Duration

	// Unpartitioned refuses partitioned entities.
	Unpartitioned bool
}

// apply checks the configuration of a new entity, and shortens its time to live.
func (l Limits) apply(name string, cfg *IntakeConfig) error {
	if l.Unpartitioned && cfg.Partitioned {
		return fmt.Errorf("create %q: entities cannot be partitioned here", name)
	}

	if l.DuplicateDetectionWindow > 0 && cfg.DuplicateDetectionWindow > l.DuplicateDetectionWindow {
		return fmt.Errorf("create %q: duplicates are detected over up to %s, not %s", name, l.DuplicateDetectionWindow, cfg.DuplicateDetectionWindow)
	}

	cfg.DefaultTTL = shortest(cfg.DefaultTTL, l.TTL)

	return nil
}
