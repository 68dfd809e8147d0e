package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The files of the record, in the folder of this package.
const (
	RunsFile      = "runs.ndjson"
	MutationsFile = "mutations.ndjson"
)

// Origin says when and with which code something was run.
type Origin struct {
	At time.Time `json:"at"`
	// Commit is the revision, with a plus sign behind it if the code was changed since.
	Commit string `json:"commit"`
}

// Run is a run of random histories.
type Run struct {
	Origin
	// First and Last are its seeds. Failed are those whose histories broke a promise.
	First     uint64        `json:"first"`
	Last      uint64        `json:"last"`
	Failed    []uint64      `json:"failed,omitempty"`
	Explained []Explanation `json:"explained,omitempty"`
	Tally
	// Took is the time of the clock.
	Took time.Duration `json:"took"`
	// States is how many different states the faults had met after some histories.
	States []Point `json:"states"`
}

// Explanation says why histories failed. People type it.
type Explanation struct {
	Seeds []uint64 `json:"seeds"`
	// Mended says what was wrong: the services, the documentation, or the simulation itself.
	Mended string `json:"mended"`
	Why    string `json:"why"`
}

// Tally is what histories contained.
type Tally struct {
	Histories int `json:"histories"`
	// Events were stored, Answers given to readers of /applied, and Requests sent to MongoDB.
	Events   int `json:"events"`
	Answers  int `json:"answers"`
	Requests int `json:"requests"`
	// Virtual is the time that passed in all histories, and Slowest how long one of them needed
	// after its last fault.
	Virtual time.Duration `json:"virtual"`
	Slowest time.Duration `json:"slowest"`
	// Faults counts the faults by kind.
	Faults map[string]int `json:"faults"`
}

// Add adds another tally.
func (t *Tally) Add(other *Tally) {
	t.Histories += other.Histories
	t.Events += other.Events
	t.Answers += other.Answers
	t.Requests += other.Requests
	t.Virtual += other.Virtual
	t.Slowest = max(t.Slowest, other.Slowest)
	if t.Faults == nil {
		t.Faults = make(map[string]int)
	}
	for kind, n := range other.Faults {
		t.Faults[kind] += n
	}
}

// Point is a point of the curve of new states.
type Point struct {
	Histories int `json:"histories"`
	States    int `json:"states"`
}

// Mutation is one trial of a mutation.
type Mutation struct {
	Origin
	Name string `json:"name"`
	// Seed is that of the history that has found the mutation, and Promise the one that this
	// history broke. Both are empty if no history has found it.
	Seed    int    `json:"seed,omitempty"`
	Promise string `json:"promise,omitempty"`
	// Test is the test that has found it instead.
	Test string `json:"test,omitempty"`
}

// Found reports whether histories or a test have found the mutation.
func (m *Mutation) Found() bool { return m.Promise != "" || m.Test != "" }

// Now returns the origin of what is run now. The program git must be there.
func Now() (Origin, error) {
	git := func(arguments ...string) (string, error) {
		out, err := exec.Command("git", arguments...).Output()
		if err != nil {
			return "", fmt.Errorf("ask git for the commit: %w", err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	commit, err := git("rev-parse", "--short=10", "HEAD")
	if err != nil {
		return Origin{}, err
	}
	changes, err := git("status", "--porcelain", "--", ":/", ":!/docs", ":!/integration/simulation/record")
	if err != nil {
		return Origin{}, err
	}
	if changes != "" {
		commit += "+"
	}
	return Origin{At: time.Now().UTC().Truncate(time.Second), Commit: commit}, nil
}

// Append adds a line to a file of the folder, which it makes if it is not there.
func Append(folder, file string, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line of %s: %w", file, err)
	}
	f, err := os.OpenFile(filepath.Join(folder, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the record: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}

// Read reads all lines of a file of the folder; none if it is not there.
func Read[T any](folder, file string) ([]T, error) {
	text, err := os.ReadFile(filepath.Join(folder, file))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	var lines []T
	for line := range bytes.Lines(text) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("read line %d of %s: %w", len(lines)+1, file, err)
		}
		lines = append(lines, one)
	}
	return lines, nil
}
