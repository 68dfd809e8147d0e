package e2e_test

import (
	"context"
	"strings"
	"syscall"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// The signals that stop a process for a while and have it go on.
const (
	sigStop     = syscall.SIGSTOP
	sigContinue = syscall.SIGCONT
)

// leader is the leading publisher.
func (s *scenario) leader() *harness.Process {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	leader, err := s.AwaitLeader(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return leader
}

// epoch is the epoch that holds the checkpoint.
func (s *scenario) epoch() int64 {
	checkpoint, err := s.state.Collection("checkpoints").FindOne(s.t.Context(), bson.D{}).Raw()
	if err != nil {
		return 0
	}
	epoch, _ := checkpoint.Lookup("epoch").AsInt64OK()
	return epoch
}

// kill kills the nth running service of a kind.
func (s *scenario) kill(kind string, n int) {
	s.t.Helper()
	for _, process := range s.Running() {
		if strings.HasPrefix(process.Name, kind) {
			if n == 0 {
				process.Kill()
				return
			}
			n--
		}
	}
	s.t.Fatalf("no %s to kill", kind)
}
