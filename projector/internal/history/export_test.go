package history

import "context"

// Server is the MongoDB stand-in of this package's tests.
var Server = &server

// Beat is what Run repeats.
func (s *Scheduler) Beat(ctx context.Context) error { return s.beat(ctx) }

// Verifies is verifies.
var Verifies = verifies
