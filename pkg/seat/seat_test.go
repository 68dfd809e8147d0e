package seat

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestSeatProvesThatItsFormerHoldersAreDead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seat")
	// expect takes the seat, and returns the function that releases it.
	expect := func(identity, boot string, want ...string) (leave func()) {
		t.Helper()
		lock, dead, err := take(path, identity, boot)
		if err != nil || lock == nil || !slices.Equal(dead, want) {
			t.Fatalf("%s has taken the seat: %t, after the dead processes %q, not %q: %v", identity, lock != nil, dead, want, err)
		}
		return func() {
			t.Helper()
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave := expect("a", "boot 1")
	if lock, dead, err := take(path, "b", "boot 1"); lock != nil || dead != nil || !errors.Is(err, ErrTaken) {
		t.Fatalf("b has the seat of a, which lives: %q, %v", dead, err)
	}
	leave()
	expect("c", "boot 1", "a")()
	// c ended before it took over anything, and a may still hold its lease.
	expect("d", "boot 1", "c", "a")()
	// The file on another host, or the host after a restart.
	expect("e", "boot 2")()
	expect("f", "boot 2", "e")()
	for _, text := range []string{"", "{", `{"boot":7}`, "null"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		expect("g", "boot 2")()
	}
	known := []string{"g"}
	for range 2 * maxPredecessors {
		expect("h", "boot 2", known...)()
		known = slices.Insert(known, 0, "h")
		known = known[:min(len(known), maxPredecessors)]
	}
	if lock, _, err := take(filepath.Join(path, "below a file"), "a", "boot 2"); lock != nil || err == nil {
		t.Errorf("a seat below a file is taken: %v", err)
	}
}

// TestCopiedSeatProvesNothing copies the file of a process that lives: to another directory, and
// over the file itself.
func TestCopiedSeatProvesNothing(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path, another := filepath.Join(directory, "seat"), filepath.Join(directory, "copy")
	living, _, err := take(path, "living", "boot")
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(another, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(another, path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(another, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, copied := range []string{path, another} {
		file, dead, err := take(copied, "other", "boot")
		if err != nil || len(dead) > 0 {
			t.Errorf("by %s, the dead processes are %q, and one of them lives: %v", copied, dead, err)
		}
		_ = file.Close()
		if file, dead, err = take(copied, "third", "boot"); err != nil || !slices.Equal(dead, []string{"other"}) {
			t.Errorf("the dead processes are %q: %v", dead, err)
		}
		_ = file.Close()
	}
}

func TestSeatWhoseFileIsRemovedProvesNothing(t *testing.T) {
	t.Parallel()
	for removed := 0; ; removed++ {
		directory := t.TempDir()
		path := filepath.Join(directory, "seat")
		locks := make([]*os.File, 2)
		locks[0], _, _ = take(path, "living", "boot")
		files, err := os.ReadDir(directory)
		if err != nil || locks[0] == nil {
			t.Fatal(err)
		}
		if removed < len(files) {
			if err := os.Remove(filepath.Join(directory, files[removed].Name())); err != nil {
				t.Fatal(err)
			}
			var dead []string
			if locks[1], dead, err = take(path, "other", "boot"); err != nil || slices.Contains(dead, "living") {
				t.Errorf("without the file %s, the dead processes are %q, and one of them lives: %v", files[removed].Name(), dead, err)
			}
		}
		for _, lock := range locks {
			if lock != nil {
				_ = lock.Close()
			}
		}
		if removed == len(files) {
			return
		}
	}
}

// A process keeps its seat although nothing refers to it. Seats of other names, such as those
// of another service on the same host, are others.
func TestTakenSeatIsKept(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for _, name := range []string{"a/b", "a", ""} {
		if dead, err := Take(directory, "seat of "+name, name); err != nil || len(dead) > 0 {
			t.Fatalf("the first process has taken the seat of %q after %q: %v", name, dead, err)
		}
		runtime.GC()
		if dead, err := Take(directory, "seat of "+name, "second"); !errors.Is(err, ErrTaken) || len(dead) > 0 {
			t.Fatalf("the second process has taken the seat of %q after %q: %v", name, dead, err)
		}
	}
	if dead, err := Take("", "seat", "a"); err != nil || dead != nil {
		t.Errorf("without a directory, the dead processes are %q: %v", dead, err)
	}
}
