package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// maxPredecessors bounds the identities in a [Seat]: those of a process that is restarted
// again and again before it leads.
const maxPredecessors = 16

// steadyTerm is how long a process must have led so that its successor takes the lease at once.
// A process that crashes again and again soon after it begins to lead must not keep the lease
// from a healthy standby.
const steadyTerm = time.Minute

// Seat is a file of this host that one process at a time holds, from its start to its end. The
// kernel releases it only when the process has ended, however it ends. So the process that
// takes the seat knows that all processes whose identities are in the file are dead.
//
// The file must be on a file system of this host, such as an emptyDir of the pod: one of the
// network can release the lock of a process that lives. The file also has the boot id of the
// kernel, so one that was copied or moved to another host proves nothing. Only a machine that is
// cloned while it runs has the boot id of its original: do not run both.
type Seat struct {
	lock *flock.Flock
	// Dead are the identities of the processes that had the seat before.
	Dead []string
}

// seatRecord is the content of the file.
type seatRecord struct {
	Boot       string   `json:"boot"`
	Identities []string `json:"identities"`
}

// TakeSeat takes the seat at path for the process with this identity. The result is nil if
// another process has the seat. The caller must keep a result that is not nil until the process
// ends, also after an error. If the error is not nil, nothing is known of earlier processes.
func TakeSeat(path, identity string) (*Seat, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read which boot of the kernel this is: %w", err)
	}
	return takeSeat(path, identity, strings.TrimSpace(string(boot)))
}

func takeSeat(path, identity, boot string) (*Seat, error) {
	s := &Seat{lock: flock.New(path, flock.SetPermissions(0o600))}
	if taken, err := s.lock.TryLock(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	} else if !taken {
		return nil, nil //nolint:nilnil // no error: another process of this host lives
	}
	// From here on the file may name this process, so the lock is kept whatever happens.
	text, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("read who was here before: %w", err)
	}
	var found seatRecord
	if json.Unmarshal(text, &found) != nil || found.Boot != boot {
		found = seatRecord{Boot: boot}
	}
	next := slices.Insert(slices.Clone(found.Identities), 0, identity)
	// The file that is locked has the record too: if it is removed, what it says goes with it.
	// If the process ends in the middle, half a record is none.
	text, err = json.Marshal(seatRecord{Boot: boot, Identities: next[:min(len(next), maxPredecessors)]})
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return s, fmt.Errorf("record that this process is here: %w", err)
	}
	s.Dead = found.Identities
	return s, nil
}

// Succeed returns a lock that is free while a dead process holds it, so the elector takes it at
// once instead of waiting for its end. It is not free if the term of the dead process was
// short: then a standby may be faster. The write is compared with the record as it is stored:
// a renewal of the dead process that is still on its way can come before it, and then the
// elector reads again, but never after it.
func (s *Seat) Succeed(lock resourcelock.Interface) resourcelock.Interface {
	if s == nil || len(s.Dead) == 0 {
		return lock
	}
	return successor{lock, s.Dead}
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
