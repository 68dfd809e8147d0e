package verify_test

import (
	"slices"
	"testing"

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
