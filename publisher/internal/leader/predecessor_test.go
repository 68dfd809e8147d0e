package leader

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestSeatProvesThatItsFormerHoldersAreDead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seat")
	take := func(identity, boot string) *Seat {
		t.Helper()
		s, err := takeSeat(path, identity, boot)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	expect := func(s *Seat, dead ...string) {
		t.Helper()
		if s == nil || !slices.Equal(s.Dead, dead) {
			t.Fatalf("seat is %+v, want the dead processes %q", s, dead)
		}
	}
	leave := func(s *Seat) {
		t.Helper()
		if err := s.lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a := take("a", "boot 1")
	expect(a)
	if s := take("b", "boot 1"); s != nil {
		t.Fatalf("b has the seat %+v of a, which lives", s)
	}
	leave(a)
	c := take("c", "boot 1")
	expect(c, "a")
	leave(c)
	// c ended before it led, and a may still hold the lease.
	d := take("d", "boot 1")
	expect(d, "c", "a")
	leave(d)
	// The file on another host, or the host after a restart.
	e := take("e", "boot 2")
	expect(e)
	leave(e)
	f := take("f", "boot 2")
	expect(f, "e")
	leave(f)
	for _, text := range []string{"", "{", `{"boot":7}`, "null"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := take("g", "boot 2")
		expect(s)
		leave(s)
	}
	for range 2 * maxPredecessors {
		leave(take("h", "boot 2"))
	}
	last := take("i", "boot 2")
	if len(last.Dead) != maxPredecessors {
		t.Errorf("%d dead processes are known, not %d", len(last.Dead), maxPredecessors)
	}
	leave(last)
	if _, err := takeSeat(filepath.Join(path, "below a file"), "a", "boot 2"); err == nil {
		t.Error("a seat below a file has no error")
	}
}

func TestSeatWhoseFileIsRemovedProvesNothing(t *testing.T) {
	t.Parallel()
	for removed := 0; ; removed++ {
		directory := t.TempDir()
		path := filepath.Join(directory, "seat")
		living, err := takeSeat(path, "living", "boot")
		if err != nil {
			t.Fatal(err)
		}
		defer living.lock.Close()
		files, err := os.ReadDir(directory)
		if err != nil {
			t.Fatal(err)
		}
		if removed == len(files) {
			return
		}
		if err := os.Remove(filepath.Join(directory, files[removed].Name())); err != nil {
			t.Fatal(err)
		}
		other, err := takeSeat(path, "other", "boot")
		if err != nil {
			t.Fatal(err)
		}
		if other == nil {
			continue
		}
		defer other.lock.Close()
		if slices.Contains(other.Dead, "living") {
			t.Errorf("without the file %s, a living process counts as dead", files[removed].Name())
		}
	}
}

// A process that crashes again and again must not keep the lease from a healthy standby.
func TestOnlyTheLeaseOfASteadyTermIsSucceeded(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		holder string
		lasted time.Duration
		want   string
	}{
		{"dead", time.Hour, ""},
		{"dead", time.Minute, ""},
		{"dead", time.Minute - time.Second, "dead"},
		{"dead", 0, "dead"},
		{"living", time.Hour, "living"},
		{"", 0, ""},
	} {
		lock := (&Seat{Dead: []string{"dead"}}).Succeed(heldLock{record: resourcelock.LeaderElectionRecord{
			HolderIdentity: c.holder, AcquireTime: metav1.NewTime(began), RenewTime: metav1.NewTime(began.Add(c.lasted)),
		}})
		record, _, err := lock.Get(t.Context())
		if err != nil || record.HolderIdentity != c.want {
			t.Errorf("a term of %q that lasted %v is read as one of %q, not %q: %v", c.holder, c.lasted, record.HolderIdentity, c.want, err)
		}
	}
}

type heldLock struct {
	resourcelock.Interface

	record resourcelock.LeaderElectionRecord
}

func (h heldLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &h.record, nil, nil
}
