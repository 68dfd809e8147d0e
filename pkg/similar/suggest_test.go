package similar_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

func TestSuggestNamesTheMostSimilar(t *testing.T) {
	t.Parallel()
	known := []string{"collection", "aggregateId", "aggregateType", "set", "inc", "push", "pull"}
	for name, want := range map[string]string{
		"colection": "collection", "aggregateID": "aggregateId", "aggregate": "aggregateId", "incr": "inc", "add": "",
		"pul": "pull", "psuh": "push", "on": "", "": "", "zzz": "",
	} {
		if got := similar.Suggest(name, known); got != want {
			t.Errorf("%q suggests %q, not %q", name, got, want)
		}
	}
	if got := similar.Meant("colection", known); got != " (did you mean collection?)" {
		t.Errorf("the question is %q", got)
	}
	if got := similar.Meant("zzz", known); got != "" {
		t.Errorf("zzz asks %q", got)
	}
}
