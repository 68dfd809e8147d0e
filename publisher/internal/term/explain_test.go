package term_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// TestOtherSessionModeNeedsEmptySubscriptions checks that the remedy says how a session mode is
// changed without another order of the events on the topic.
func TestOtherSessionModeNeedsEmptySubscriptions(t *testing.T) {
	t.Parallel()
	recorded := checkpoint.Identity{SessionMode: "bucket", SessionBuckets: 4}
	for want, here := range map[bool]checkpoint.Identity{
		true:  {SessionMode: "bucket", SessionBuckets: 7},
		false: {SessionMode: "bucket", SessionBuckets: 4, Topic: "others"},
	} {
		err := term.ExplainPipeline(&checkpoint.OtherPipelineError{Differences: recorded.Differences(here)})
		if got := strings.Contains(err.Error(), "until every subscription is empty"); got != want {
			t.Errorf("%v", err)
		}
	}
}
