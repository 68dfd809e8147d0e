package leader

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// steadyTerm is how long a process must have led so that its successor takes the lease at once.
// A process that crashes again and again soon after it begins to lead must not keep the lease
// from a healthy standby.
const steadyTerm = time.Minute

// Succeed returns a lock that is free while one of the dead processes holds it, so the elector
// takes it at once instead of waiting for its end. It is not free if the term of the dead process
// was short: then a standby may be faster. The write is compared with the record as it is stored:
// a renewal of the dead process that is still on its way can come before it, and then the
// elector reads again, but never after it.
func Succeed(lock resourcelock.Interface, dead []string) resourcelock.Interface {
	if len(dead) == 0 {
		return lock
	}
	return successor{lock, dead}
}

type successor struct {
	resourcelock.Interface

	dead []string
}

func (s successor) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := s.Interface.Get(ctx)
	if err == nil && slices.Contains(s.dead, record.HolderIdentity) && record.RenewTime.Sub(record.AcquireTime.Time) >= steadyTerm {
		record.HolderIdentity = ""
	}
	return record, raw, err
}
