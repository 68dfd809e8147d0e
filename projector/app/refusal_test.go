package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// A projector that is refused at its start asks whether the subscription is misspelt, if the
// topic has a similar one and not this one.
func TestMistypedSubscriptionIsAskedFor(t *testing.T) {
	t.Parallel()
	var p Projector
	p.config.ServiceBus.Subscription, p.config.ServiceBus.Topic = "projektor", "events"
	for meant, names := range map[string][]string{
		" (did you mean projector?)": {"audit", "projector"},
		"":                           {"projector", "Projektor"},
	} {
		err := p.explain(fmt.Errorf("%w: not found", drain.ErrRefused), func() []string { return names })
		if want := "subscription projektor" + meant + " of topic events"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := p.explain(nil, nil); err != nil {
		t.Error(err)
	}
}

// Wrong names and missing rights are not to blame if the clock is behind, or the subscription
// is disabled.
func TestRefusalsSayWhatHelps(t *testing.T) {
	t.Parallel()
	var p Projector
	for refusal, want := range map[string]string{
		"put token: status-code: 401, ExpiredToken: The token is expired": "correct the clock",
		"*Error{Condition: com.microsoft:entity-disabled}":                "set its status to Active",
	} {
		if err := p.explain(fmt.Errorf("%w: %s", drain.ErrRefused, refusal), nil); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "right to listen") {
			t.Errorf("%s: %v", refusal, err)
		}
	}
}
