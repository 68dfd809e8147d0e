package app

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// A lease that somebody has changed by hand can last for thousands of years.
func TestStatusSaysUntilWhenALeaseLasts(t *testing.T) {
	t.Parallel()
	renewed := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	s := status{Leader: "pod", silent: silentHolder(leader.Holder{Identity: "pod", RenewedAt: renewed, Until: renewed.AddDate(2974, 0, 0)})}
	found := s.conditions()
	if len(found) != 1 || found[0].Name != "no-leader" || !strings.Contains(found[0].Text, "nobody else can lead before 5000-11-28T10:00:00Z") {
		t.Errorf("the conditions are %+v", found)
	}
}
