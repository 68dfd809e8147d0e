package leader

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
