package access_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
)

// TestAudience: a token covers its resource and every path below it. Paths are not
// case-sensitive.
func TestAudience(t *testing.T) {
	t.Parallel()

	policies := []access.Policy{{Name: "p", Key: "k", Rights: access.Send}}

	for _, c := range []struct {
		resource, path string
		covered        bool
	}{
		{"sb://host/", "events", true},
		{"host", "events", true},
		{"amqps://host/Events", "events", true},
		{"amqps://host/events", "EVENTS/Subscriptions/Projector", true},
		{"amqps://host/events?x=1", "events", true},
		{"amqps://host/events", "events2", false},
		{"amqps://host/events/subscriptions/a", "events", false},
	} {
		sr, se := url.QueryEscape(c.resource), fmt.Sprint(time.Now().Add(time.Hour).Unix())
		mac := hmac.New(sha256.New, []byte("k"))
		mac.Write([]byte(sr + "\n" + se))

		token := fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%s&skn=p", sr, url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))), se)

		rights, _, err := access.Check(policies, token, c.path)
		if covered := err == nil && rights == access.Send; covered != c.covered {
			t.Errorf("%q covers %q: %t, %v", c.resource, c.path, covered, err)
		}

		if !c.covered && !errors.Is(err, access.ErrToken) {
			t.Errorf("%q on %q: %v", c.resource, c.path, err)
		}
	}
}
