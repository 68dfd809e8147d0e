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

// reign is a process's term, according to the checkpoint and the topic.
type reign struct {
	epoch  int64
	leader *harness.Process
	// first is when the topic accepted the term's first event.
	first time.Time
}

// checkpoint returns the epoch that holds the checkpoint, 0 for none, and the identity that
// claimed it.
func (s *scenario) checkpoint() (epoch int64, identity string) {
	checkpoint, err := s.state.Collection("checkpoints").FindOne(s.t.Context(), bson.D{}).Raw()
	if err != nil {
		return 0, ""
	}
	epoch, _ = checkpoint.Lookup("epoch").AsInt64OK()
	identity, _ = checkpoint.Lookup("holder").StringValueOK()
	return epoch, identity
}

// saved returns when the checkpoint was last written.
func (s *scenario) saved() time.Time {
	checkpoint, err := s.state.Collection("checkpoints").FindOne(s.t.Context(), bson.D{}).Raw()
	if err != nil {
		return time.Time{}
	}
	at, _ := checkpoint.Lookup("updatedAt").TimeOK()
	return at
}

// claimed returns the epoch that holds the checkpoint, 0 for none, and the name of the
// publisher that claimed it.
func (s *scenario) claimed() (epoch int64, name string) {
	epoch, identity := s.checkpoint()
	name, _, _ = strings.Cut(identity, "_")
	return epoch, name
}

// awaitTermAfter waits until a term after that epoch publishes.
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

// exits waits until a process that was asked to stop has ended cleanly.
func (s *scenario) exits(process *harness.Process) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout)
	defer cancel()
	must(s.t, process.AwaitExit(ctx))
}

// atAnyMoment waits until the term has saved a checkpoint of its own. Then it waits for a
// random time of up to two retry periods, so that faults are not synchronised with the
// requests to the Lease.
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
