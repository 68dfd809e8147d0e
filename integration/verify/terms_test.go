package verify_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/verify"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		epochs, late []int64
	}{
		"no message":                     {nil, nil},
		"one term":                       {[]int64{3, 3, 3}, nil},
		"terms in order":                 {[]int64{1, 1, 2, 5, 5}, nil},
		"one late message":               {[]int64{1, 2, 1, 2}, []int64{1}},
		"messages late by two terms":     {[]int64{1, 2, 3, 1, 2, 3}, []int64{1, 2}},
		"a term with late messages only": {[]int64{2, 1, 1}, []int64{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, late := verify.Terms(messages(test.epochs))
			if got := epochs(late); !slices.Equal(got, test.late) {
				t.Errorf("late are %v, not %v", got, test.late)
			}
		})
	}
}

// The current messages are in the order of their terms. Both parts together are all
// messages in their order.
func TestTermsSplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := messages(rapid.SliceOf(rapid.Int64Range(1, 5)).Draw(t, "epochs"))
		current, late := verify.Terms(all)
		if !slices.IsSorted(epochs(current)) {
			t.Fatalf("current are %v", epochs(current))
		}
		for _, m := range all {
			if len(current) > 0 && current[0] == m {
				current = current[1:]
			} else if len(late) > 0 && late[0] == m {
				late = late[1:]
			} else {
				t.Fatalf("event %d is in neither part, or out of order", m.EventID)
			}
		}
		if len(current)+len(late) > 0 {
			t.Fatalf("%d messages too many", len(current)+len(late))
		}
	})
}

func messages(epochs []int64) []verify.Accepted {
	accepted := make([]verify.Accepted, len(epochs))
	for i, epoch := range epochs {
		accepted[i] = verify.Accepted{EventID: int64(i + 1), Epoch: epoch}
	}
	return accepted
}

func epochs(accepted []verify.Accepted) []int64 {
	var all []int64
	for _, m := range accepted {
		all = append(all, m.Epoch)
	}
	return all
}
