package kube_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// reign is one process's term, as the checkpoint and the topic show it.
type reign struct {
	epoch  int64
	leader *harness.Process
	// first is when the topic accepted its first event.
	first time.Time
}

// checkpoint is the epoch that holds the checkpoint, 0 for none, and the identity
// that claimed it.
func (s *scenario) checkpoint() (epoch int64, identity string) {
	checkpoint, err := s.state.Collection("checkpoints").FindOne(s.t.Context(), bson.D{}).Raw()
	if err != nil {
		return 0, ""
	}
	epoch, _ = checkpoint.Lookup("epoch").AsInt64OK()
	identity, _ = checkpoint.Lookup("holder").StringValueOK()
	return epoch, identity
}

// saved is when the checkpoint was written last.
func (s *scenario) saved() time.Time {
	checkpoint, err := s.state.Collection("checkpoints").FindOne(s.t.Context(), bson.D{}).Raw()
	if err != nil {
		return time.Time{}
	}
	at, _ := checkpoint.Lookup("updatedAt").TimeOK()
	return at
}

// claimed is the epoch that holds the checkpoint, 0 for none, and the name of the
// publisher that claimed it.
func (s *scenario) claimed() (epoch int64, name string) {
	epoch, identity := s.checkpoint()
	name, _, _ = strings.Cut(identity, "_")
	return epoch, name
}

// awaitTermAfter waits until a term later than that epoch publishes.
func (s *scenario) awaitTermAfter(epoch int64) reign {
	s.t.Helper()
	var next reign
	s.await(fmt.Sprintf("a term after epoch %d that publishes", epoch), func() bool {
		claimed, holder := s.claimed()
		if claimed <= epoch {
			return false
		}
		for _, m := range s.accepted() {
			if m.Epoch == claimed {
				next = reign{epoch: claimed, leader: s.process(holder), first: m.At}
				return true
			}
		}
		return false
	})
	return next
}

// exits waits for the clean end of a process that was asked to stop.
func (s *scenario) exits(process *harness.Process) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout)
	defer cancel()
	must(s.t, process.AwaitExit(ctx))
}

// atAnyMoment lets a random part of the time between two looks at the Lease pass, so
// that faults do not come in step with them. By then the term is a settled one: it
// has saved a checkpoint of its own.
func (s *scenario) atAnyMoment() {
	s.t.Helper()
	was := s.saved()
	s.await("a checkpoint of the term", func() bool { return !s.saved().Equal(was) })
	timer := time.NewTimer(rand.N(2 * s.lease.period))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.t.Context().Done():
	}
}
