package deadletter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
)

// Conditions says that the subscription has dead letters.
func Conditions(c Count) []health.Condition {
	var total int64
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(c.Messages)) {
		if n := c.Messages[reason]; n > 0 {
			total += int64(n)
			reasons = append(reasons, fmt.Sprintf("%s: %d", reason, n))
		}
	}
	if total == 0 {
		return nil
	}
	atLeast := ""
	if c.Bounded {
		atLeast = "at least "
	}
	return []health.Condition{{
		Name: "dead-letters", State: health.Degraded,
		Text:   fmt.Sprintf("the dead-letter queue has %s%s (%s)", atLeast, cli.Count(total, "message"), strings.Join(reasons, ", ")),
		Remedy: "\"projector deadletters list\" shows what becomes of each.",
	}}
}
