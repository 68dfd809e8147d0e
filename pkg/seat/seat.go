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
// kernel and its own inode. So a copy of the file, here or on another host, proves nothing: the
// process that is named in it may hold the original. An inode gets no other file while a process
// holds it. Only a machine that is cloned while it runs has the boot id of its original: do not
// run both.
package seat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ErrTaken means that another process of this host has the seat. Each process needs a directory
// of its own.
var ErrTaken = errors.New("another process has it: give each process a directory of its own")

// maxPredecessors bounds the identities in the file: those of a process that is restarted again
// and again before it takes over anything.
const maxPredecessors = 16

// taken are the seats of this process. An open file that nothing refers to would be closed, and
// with it the seat would be released.
var taken struct {
	sync.Mutex
	files []*os.File
}

// record is the content of the file.
type record struct {
	Boot       string   `json:"boot"`
	Inode      string   `json:"inode"`
	Identities []string `json:"identities"`
}

// Taker is [Take] in a directory, or in what stands in for one.
type Taker func(name, identity string) (dead []string, err error)

// In returns the Taker of a directory.
func In(directory string) Taker {
	return func(name, identity string) ([]string, error) { return Take(directory, name, identity) }
}

// Take takes the seat with the name in a directory for the process with this identity, until the
// process ends, and returns the identities of the dead processes that had the seat before. It
// returns none if the directory is empty (""). After an error, which can be [ErrTaken], nothing
// is known of earlier processes.
func Take(directory, name, identity string) (dead []string, err error) {
	if directory == "" {
		return nil, nil
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read which boot of the kernel this is: %w", err)
	}
	file, dead, err := take(filepath.Join(directory, url.PathEscape(name)), identity, strings.TrimSpace(string(boot)))
	if file != nil {
		taken.Lock()
		defer taken.Unlock()
		taken.files = append(taken.files, file)
	}
	return dead, err
}

// take returns the file if it has locked it, also after an error: the file may name this
// process already. It reads and writes the file that it has locked, whatever the path leads to
// meanwhile.
func take(path, identity, boot string) (file *os.File, dead []string, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the seat: %w", err)
	}
	inode, err := lock(file)
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("lock the seat %s: %w", path, err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return file, nil, fmt.Errorf("read who was here before: %w", err)
	}
	var found record
	if json.Unmarshal(text, &found) != nil || found.Boot != boot || found.Inode != inode {
		found = record{}
	}
	next := slices.Insert(slices.Clone(found.Identities), 0, identity)
	// The file that is locked has the record too: if it is removed, what it says goes with it.
	// If the process ends in the middle, half a record is none.
	text, err = json.Marshal(record{Boot: boot, Inode: inode, Identities: next[:min(len(next), maxPredecessors)]})
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	if err != nil {
		return file, nil, fmt.Errorf("record that this process is here: %w", err)
	}
	return file, found.Identities, nil
}
