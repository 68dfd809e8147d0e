package sbus

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// The expected signature is that of `openssl dgst -sha256 -hmac` over the same two lines.
func TestSignatureOfAKnownString(t *testing.T) {
	t.Parallel()
	const want = "SharedAccessSignature sr=amqps%3a%2f%2forders.servicebus.windows.net%2fevents&sig=WUJtdFAvb9vdm2evpgJfgiR1Y%2F%2B%2BLHWcQtIovTZ34Gs%3D&se=1700000000&skn=send"
	got := sign("amqps://orders.servicebus.windows.net/Events", "send", "c2VjcmV0", time.Unix(1700000000, 0))
	if got != want {
		t.Errorf("signature is\n%s, want\n%s", got, want)
	}
}

func TestSignaturesExpireInAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, err := Open(Config{ConnectionString: "Endpoint=sb://orders.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0"})
		if err != nil {
			t.Fatal(err)
		}
		token, err := n.Token(t.Context(), "amqps://orders.servicebus.windows.net/events")
		if err != nil {
			t.Fatal(err)
		}
		want := time.Now().Add(time.Hour)
		query, err := url.ParseQuery(strings.TrimPrefix(token.Value, "SharedAccessSignature "))
		if err != nil || !token.Expires.Equal(want) || query.Get("se") != strconv.FormatInt(want.Unix(), 10) ||
			query.Get("skn") != "k" || token.Type != "servicebus.windows.net:sastoken" {
			t.Errorf("token is %+v (%v)", token, err)
		}
		if n.Plain() || n.Host() != "orders.servicebus.windows.net" {
			t.Errorf("host %q, plain %v", n.Host(), n.Plain())
		}
	})
}

func TestSignatureOfTheConnectionStringDoesNotExpire(t *testing.T) {
	t.Parallel()
	n, err := Open(Config{ConnectionString: "Endpoint=sb://127.0.0.1:5672;SharedAccessSignature=SharedAccessSignature sr=x&sig=y&se=1&skn=z;UseDevelopmentEmulator=TRUE"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := n.Token(t.Context(), "amqp://127.0.0.1/events")
	if err != nil || token.Value != "SharedAccessSignature sr=x&sig=y&se=1&skn=z" || !token.Expires.IsZero() {
		t.Errorf("token is %+v (%v)", token, err)
	}
	if !n.Plain() {
		t.Error("the emulator is asked for TLS")
	}
}

// scoped is a credential that records the requested scopes.
type scoped struct{ asked []string }

func (c *scoped) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.asked = append(c.asked, o.Scopes...)
	return azcore.AccessToken{Token: "e30.e30.", ExpiresOn: time.Unix(1700000000, 0)}, nil
}

func TestTokenOfAnIdentity(t *testing.T) {
	t.Parallel()
	credential := &scoped{}
	n, err := open(Config{Namespace: "orders"}, func() (azcore.TokenCredential, error) { return credential, nil })
	if err != nil {
		t.Fatal(err)
	}
	token, err := n.Token(t.Context(), "amqps://orders.servicebus.windows.net/events")
	if err != nil || token != (Token{Value: "e30.e30.", Type: "jwt", Expires: time.Unix(1700000000, 0)}) {
		t.Errorf("token is %+v (%v)", token, err)
	}
	if len(credential.asked) != 1 || credential.asked[0] != "https://servicebus.azure.net//.default" {
		t.Errorf("asked for %v", credential.asked)
	}
	if n.Plain() || n.Host() != "orders.servicebus.windows.net" {
		t.Errorf("host %q, plain %v", n.Host(), n.Plain())
	}
	if _, err := (&Namespace{credential: noToken{}}).Token(t.Context(), ""); err == nil {
		t.Error("no token, and no error")
	}
}
