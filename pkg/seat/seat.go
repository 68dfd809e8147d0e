// Package seat proves that processes are dead, so that what they held need not be held until it
// expires.
//
// A seat is a file of this host that one process at a time holds, from its start to its end. The
// kernel releases it only when the process has ended, however it ends. So a process that takes
// the seat knows that all processes whose identities are in the file are dead. A process that is
// only stopped keeps its seat.
//
// The file must be on a file system of this host, such as an emptyDir of the pod: one of the
// network can release the lock of a process that lives. The file also has the boot id of the
// kernel, so one that was copied or moved to another host proves nothing. Only a machine that is
// cloned while it runs has the boot id of its original: do not run both.
package seat

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

// maxPredecessors bounds the identities in the file: those of a process that is restarted again
// and again before it takes over anything.
const maxPredecessors = 16

// taken are the seats of this process. An open file that nothing refers to would be closed, and
// with it the seat would be released.
var taken struct {
	sync.Mutex
	locks []*flock.Flock
}

// record is the content of the file.
type record struct {
	Boot       string   `json:"boot"`
	Identities []string `json:"identities"`
}

// Take takes the seat with the name in a directory for the process with this identity, until the
// process ends, and returns the identities of the dead processes that had the seat before. It
// returns none if the directory is empty (""), or if another process has the seat. After an
// error, nothing is known of earlier processes.
func Take(directory, name, identity string) (dead []string, err error) {
	if directory == "" {
		return nil, nil
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read which boot of the kernel this is: %w", err)
	}
	lock, dead, err := take(filepath.Join(directory, url.PathEscape(name)), identity, strings.TrimSpace(string(boot)))
	if lock != nil {
		taken.Lock()
		defer taken.Unlock()
		taken.locks = append(taken.locks, lock)
	}
	return dead, err
}

// take returns a lock if it has locked the file, also after an error: the file may name this
// process already.
func take(path, identity, boot string) (lock *flock.Flock, dead []string, err error) {
	lock = flock.New(path, flock.SetPermissions(0o600))
	if locked, err := lock.TryLock(); err != nil {
		return nil, nil, fmt.Errorf("lock %s: %w", path, err)
	} else if !locked {
		return nil, nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return lock, nil, fmt.Errorf("read who was here before: %w", err)
	}
	var found record
	if json.Unmarshal(text, &found) != nil || found.Boot != boot {
		found = record{Boot: boot}
	}
	next := slices.Insert(slices.Clone(found.Identities), 0, identity)
	// The file that is locked has the record too: if it is removed, what it says goes with it.
	// If the process ends in the middle, half a record is none.
	text, err = json.Marshal(record{Boot: boot, Identities: next[:min(len(next), maxPredecessors)]})
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return lock, nil, fmt.Errorf("record that this process is here: %w", err)
	}
	return lock, found.Identities, nil
}
