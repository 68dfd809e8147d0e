package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// maxPredecessors bounds the identities in a [Seat]: those of a process that is restarted
// again and again before it leads.
const maxPredecessors = 16

// Seat is a file of this host that one process at a time holds, from its start to its end. The
// kernel releases it only when the process has ended, however it ends. So the process that
// takes the seat knows that all processes whose identities are in the file are dead.
//
// The file must be on a disk of this host, such as an emptyDir of the pod: a file system of the
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
// another process has the seat. If the error is not nil, nothing is known of earlier processes.
// The caller must keep the seat until the process ends.
func TakeSeat(path, identity string) (*Seat, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read which boot of the kernel this is: %w", err)
	}
	return takeSeat(path, identity, strings.TrimSpace(string(boot)))
}

func takeSeat(path, identity, boot string) (*Seat, error) {
	s := &Seat{lock: flock.New(path+".lock", flock.SetPermissions(0o600))}
	if taken, err := s.lock.TryLock(); err != nil {
		return nil, fmt.Errorf("lock %s.lock: %w", path, err)
	} else if !taken {
		return nil, nil //nolint:nilnil // no error: another process of this host lives
	}
	var found seatRecord
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, errors.Join(fmt.Errorf("read who was here before: %w", err), s.lock.Unlock())
	case json.Unmarshal(text, &found) == nil && found.Boot == boot:
		s.Dead = found.Identities
	}
	next := seatRecord{Boot: boot, Identities: slices.Insert(slices.Clone(s.Dead), 0, identity)}
	next.Identities = next.Identities[:min(len(next.Identities), maxPredecessors)]
	// The record is replaced as a whole: half of one would be no record.
	text, err = json.Marshal(next)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record that this process is here: %w", err), s.lock.Unlock())
	}
	return s, nil
}

// Succeed returns a lock that is free while a dead process holds it, so the elector takes it at
// once instead of waiting for its end. The write is compared with the record as it is stored:
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
	if err == nil && slices.Contains(s.dead, record.HolderIdentity) {
		record.HolderIdentity = ""
	}
	return record, raw, err
}
