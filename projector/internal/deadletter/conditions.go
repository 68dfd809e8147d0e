package deadletter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
)

// Conditions says that the subscription has dead letters, given their number by reason.
func Conditions(messages map[string]int) []health.Condition {
	var total int64
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(messages)) {
		if n := messages[reason]; n > 0 {
			total += int64(n)
			reasons = append(reasons, fmt.Sprintf("%s: %d", reason, n))
		}
	}
	if total == 0 {
		return nil
	}
	return []health.Condition{{
		Name: "dead-letters", State: health.Degraded,
		Text:   fmt.Sprintf("the dead-letter queue has %s (%s)", cli.Count(total, "message"), strings.Join(reasons, ", ")),
		Remedy: "\"projector deadletters list\" shows what becomes of each.",
	}}
}
