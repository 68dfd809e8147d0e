package contract_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

// claimant is a namespace with tokens of a test.
type claimant struct {
	*sbus.Namespace

	mu    sync.Mutex
	asked int
	token func(asked int, audience string) (sbus.Token, error)
}

func (c *claimant) Token(_ context.Context, audience string) (sbus.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.asked++

	return c.token(c.asked, audience)
}

// TestSessionsRenewTheirClaims renews claims over a day on one connection. Some renewals
// fail, and $cbs is unavailable for a while.
func TestSessionsRenewTheirClaims(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		namespace, err := sbus.Open(sbus.Config{ConnectionString: secret.Text(e.ConnectionString()), Topic: "events"})
		must(t, err)

		down := errors.New("the identity provider is down")
		dials := 0
		c := e.connection(func(o *sessions.Options) {
			o.Dial = func(ctx context.Context) (net.Conn, error) {
				dials++

				return e.dial(ctx)
			}
			who := &claimant{Namespace: namespace}
			who.token = func(asked int, audience string) (sbus.Token, error) {
				if asked > 2 && asked%3 == 0 {
					return sbus.Token{}, down
				}

				return namespace.Token(e.ctx, audience)
			}
			o.Namespace = who
		})
		s := e.sender(e.client(), "events")

		for hour := range 24 {
			e.send(s, "a", fmt.Sprint(hour))

			r, err := c.Accept(e.ctx, time.Second)
			must(t, err)
			must(t, r.CompleteMessage(e.ctx, e.take(r, 1)[0], nil))
			must(t, r.RenewSessionLock(e.ctx, nil))
			must(t, r.Close(e.ctx))

			if hour == 12 {
				e.RefuseLinks(4*time.Minute, "com.microsoft:server-busy")
				wait(4 * time.Minute)
			}

			for range 60 {
				if _, err := c.Accept(e.ctx, time.Minute); !errors.Is(err, sessions.ErrNoSession) {
					t.Fatal(err)
				}
			}
		}

		equal(t, "connections made", dials, 1)
	})
}

// TestSessionsTakeIdentityTokens uses tokens of an Azure identity. Each stays the same
// until shortly before it expires.
func TestSessionsTakeIdentityTokens(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		namespace, err := sbus.Open(sbus.Config{ConnectionString: secret.Text(e.ConnectionString()), Topic: "events"})
		must(t, err)

		who := &claimant{Namespace: namespace}

		var expires time.Time

		who.token = func(int, string) (sbus.Token, error) {
			if time.Until(expires) < 5*time.Minute {
				expires = time.Now().Add(time.Hour)
			}

			return sbus.Token{Value: "e30.e30.", Type: "jwt", Expires: expires}, nil
		}
		c := e.connection(func(o *sessions.Options) { o.Namespace = who })

		ctx, cancel := context.WithTimeout(e.ctx, 10*time.Hour)
		defer cancel()

		for ctx.Err() == nil {
			_, err := c.Accept(ctx, time.Minute)
			if ctx.Err() == nil && !errors.Is(err, sessions.ErrNoSession) {
				t.Fatal(err)
			}
		}

		// 30, 15, 7.5 and 3.75 minutes, then a new token: two tokens each time.
		if who.asked < 80 || who.asked > 120 {
			t.Fatalf("asked %d times for a token in ten hours", who.asked)
		}
	})
}

// TestSessionsHideTheirSignatures: an error has the audience, and never the token.
func TestSessionsHideTheirSignatures(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		namespace, err := sbus.Open(sbus.Config{ConnectionString: secret.Text(strings.Replace(e.ConnectionString(), sbemu.DefaultKey, "another", 1)), Topic: "events"})
		must(t, err)

		_, err = e.connection(func(o *sessions.Options) { o.Namespace = namespace }).Accept(e.ctx, time.Second)
		if sbus.Classify(err) != sbus.ClassFatal || strings.Contains(err.Error(), "another") || strings.Contains(err.Error(), "sig=") || !strings.Contains(err.Error(), "/events/Subscriptions/projector") {
			t.Fatalf("error is %v", err)
		}
	})
}
