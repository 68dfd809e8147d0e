package deadletter_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
)

// TestRemoveRemovesOnlyTheChosenMessages checks that every other message stays, and is not
// locked.
func TestRemoveRemovesOnlyTheChosenMessages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		chosen  []int64
		removed int
		left    []int64
	}{
		{"two of four", []int64{2, 4}, 2, []int64{1, 3}},
		{"a message that no longer exists", []int64{9}, 0, []int64{1, 2, 3, 4}},
		{"none", nil, 0, []int64{1, 2, 3, 4}},
		{"all", []int64{1, 2, 3, 4}, 4, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := &letters{locked: map[int64]bool{}}
				for i := range int64(4) {
					q.messages = append(q.messages, letter(i+1, "expression", "a", i+1))
				}
				chosen := map[int64]bool{}
				for _, n := range test.chosen {
					chosen[n] = true
				}
				var peeked []int64
				if err := deadletter.Peek(t.Context(), q, 3, func(m *deadletter.Message) { peeked = append(peeked, m.Sequence) }); err != nil || !slices.Equal(peeked, []int64{1, 2, 3}) {
					t.Errorf("peeked at %v, %v", peeked, err)
				}
				removed, err := deadletter.Remove(t.Context(), q, chosen, 10, zerolog.Nop())
				if err != nil || removed != test.removed || !slices.Equal(q.left(), test.left) {
					t.Errorf("removed %d, left %v, want %d and %v; %v", removed, q.left(), test.removed, test.left, err)
				}
				if len(test.left) == 0 {
					return
				}
				if again, err := q.Receive(t.Context(), 10); err != nil || len(again) != len(test.left) {
					t.Errorf("%d messages can be locked afterwards, %v", len(again), err)
				}
			})
		})
	}
}
