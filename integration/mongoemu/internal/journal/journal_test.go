package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/journal"
)

func open(t *testing.T, dir string) (*journal.Journal, []string) {
	t.Helper()
	var frames []string
	j, err := journal.Open(dir, func(f []byte) error {
		frames = append(frames, string(f))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return j, frames
}

func closeIt(t *testing.T, j *journal.Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFramesSurviveAReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	j, frames := open(t, dir)
	if len(frames) != 0 {
		t.Errorf("%q", frames)
	}
	j.Append([]byte("one"))
	j.Append(nil)
	j.Append(bytes.Repeat([]byte("x"), 3<<20))
	if _, err := journal.Open(dir, nil); err == nil {
		t.Error("two processes may use one directory")
	}
	closeIt(t, j)
	j, frames = open(t, dir)
	if len(frames) != 3 || frames[0] != "one" || frames[1] != "" || len(frames[2]) != 3<<20 {
		t.Errorf("%d frames", len(frames))
	}
	if err := j.Rewrite(func(next *journal.Journal) { next.Append([]byte("snapshot")) }); err != nil {
		t.Fatal(err)
	}
	j.Append([]byte("after"))
	closeIt(t, j)
	j, frames = open(t, dir)
	if len(frames) != 2 || frames[0] != "snapshot" || frames[1] != "after" {
		t.Errorf("%q", frames)
	}
	closeIt(t, j)
}

// If the file is cut or damaged at any byte, the frames before that byte are read and new
// frames are appended after them.
func TestDamagedFileKeepsTheFramesBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := open(t, dir)
	for _, f := range []string{"one", "two", "three"} {
		j.Append([]byte(f))
	}
	closeIt(t, j)
	whole, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{11, 22, 35}
	for n := range whole {
		damaged := bytes.Clone(whole)
		damaged[n] ^= 0x40
		for _, content := range [][]byte{whole[:n], damaged} {
			if err := os.WriteFile(filepath.Join(dir, "journal"), content, 0o600); err != nil {
				t.Fatal(err)
			}
			want := 0
			for want < len(ends) && ends[want] <= n {
				want++
			}
			j, frames := open(t, dir)
			if len(frames) != want {
				t.Fatalf("damaged at %d: %d frames, want %d", n, len(frames), want)
			}
			j.Append([]byte("next"))
			closeIt(t, j)
			if j, frames = open(t, dir); len(frames) != want+1 || frames[want] != "next" {
				t.Fatalf("damaged at %d, then written: %q", n, frames)
			}
			closeIt(t, j)
		}
	}
}

func TestUnreadableContentStopsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := open(t, dir)
	j.Append([]byte("one"))
	closeIt(t, j)
	refused := errors.New("refused")
	if _, err := journal.Open(dir, func([]byte) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	j, _ = open(t, dir) // the failed Open unlocked the directory
	closeIt(t, j)
}
