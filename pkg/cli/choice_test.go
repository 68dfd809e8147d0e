package cli_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

func TestChoiceNamesEveryProblem(t *testing.T) {
	t.Parallel()
	known := []string{"missing", "rejected"}
	for _, c := range []struct {
		choice cli.Choice[string]
		want   string
	}{
		{cli.Choice[string]{Limit: 1, Max: 10}, ""},
		{cli.Choice[string]{Limit: 10, Max: 10, OlderThan: time.Hour, Reason: "missing", Reasons: known}, ""},
		{cli.Choice[string]{Limit: 11, Max: 10}, "--limit is 11: use 1 to 10"},
		{
			cli.Choice[string]{Max: 10, OlderThan: -time.Minute, Reason: "lost", Reasons: known},
			"--limit is 0: use 1 to 10\n--older-than is -1m0s: use a positive duration\n--reason is \"lost\", unknown: use one of missing, rejected",
		},
	} {
		got := ""
		if err := c.choice.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.choice, got, c.want)
		}
	}
}
