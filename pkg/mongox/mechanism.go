package mongox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
)

// rotatingMechanism is a mechanism of the driver that asks for the user and the password for
// each connection, and then authenticates by the mechanism in propertyMechanism.
const (
	rotatingMechanism = "penstock-rotating"
	propertyMechanism = "mechanism"
)

// The driver's table of mechanisms has no lock, so this runs before any client is made.
var _ = func() bool {
	auth.RegisterAuthenticatorFactory(rotatingMechanism, func(c *auth.Cred, client *http.Client) (auth.Authenticator, error) {
		return &rotating{c, client}, nil
	})
	return true
}()

// rotates reports whether a mechanism authenticates with a user and a password of the
// connection string. The others get their credentials elsewhere, and renew them.
func rotates(mechanism string) bool {
	switch mechanism {
	case "", auth.SCRAMSHA1, auth.SCRAMSHA256, auth.PLAIN:
		return true
	}
	return false
}

// rotating authenticates the connections of one client.
type rotating struct {
	cred   *auth.Cred
	client *http.Client
}

var _ auth.SpeculativeAuthenticator = (*rotating)(nil)

// current makes the authenticator of a mechanism with the current user and password.
func (r *rotating) current(ctx context.Context, mechanism string) (auth.Authenticator, error) {
	answer, err := r.cred.OIDCMachineCallback(ctx, nil)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse("//" + answer.AccessToken + "@host")
	if err != nil {
		return nil, errors.New("read the current user and password")
	}
	cred := auth.Cred{Source: r.cred.Source, Username: parsed.User.Username(), PasswordSet: true}
	cred.Password, _ = parsed.User.Password()
	return auth.CreateAuthenticator(mechanism, &cred, r.client)
}

// Auth implements [auth.Authenticator]. Without a mechanism in the connection string it tries
// SCRAM-SHA-256 and then SCRAM-SHA-1: the driver asks the server for the mechanisms of a user
// only for the user of the start.
func (r *rotating) Auth(ctx context.Context, config *driver.AuthConfig) error {
	mechanisms := []string{r.cred.Props[propertyMechanism]}
	if mechanisms[0] == "" {
		mechanisms = []string{auth.SCRAMSHA256, auth.SCRAMSHA1}
	}
	var first error
	for _, mechanism := range mechanisms {
		authenticator, err := r.current(ctx, mechanism)
		if err == nil {
			err = authenticator.Auth(ctx, config)
		}
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Reauth implements [auth.Authenticator].
func (r *rotating) Reauth(context.Context, *driver.AuthConfig) error {
	return fmt.Errorf("%s does not authenticate a connection again", rotatingMechanism)
}

// CreateSpeculativeConversation implements [auth.SpeculativeAuthenticator]: the first message
// of SCRAM goes out with the connection's first command, which saves a round trip.
func (r *rotating) CreateSpeculativeConversation() (auth.SpeculativeConversation, error) {
	mechanism := r.cred.Props[propertyMechanism]
	if mechanism == "" {
		mechanism = auth.SCRAMSHA256
	}
	authenticator, err := r.current(context.Background(), mechanism)
	if err != nil {
		return nil, err
	}
	speculative, ok := authenticator.(auth.SpeculativeAuthenticator)
	if !ok {
		return nil, nil //nolint:nilnil // the driver expects nil if a mechanism has none
	}
	return speculative.CreateSpeculativeConversation()
}
