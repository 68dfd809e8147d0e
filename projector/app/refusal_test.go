package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// Wrong names and missing rights are not to blame if the clock is behind, or the subscription
// is disabled.
func TestRefusalsSayWhatHelps(t *testing.T) {
	t.Parallel()
	var p Projector
	for refusal, want := range map[string]string{
		"put token: status-code: 401, ExpiredToken: The token is expired": "correct the clock",
		"*Error{Condition: com.microsoft:entity-disabled}":                "set its status to Active",
	} {
		if err := p.explain(fmt.Errorf("%w: %s", drain.ErrRefused, refusal)); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "right to listen") {
			t.Errorf("%s: %v", refusal, err)
		}
	}
}
