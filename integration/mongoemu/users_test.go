package mongoemu_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

// codes of refusals.
const (
	unauthorized         = 13
	authenticationFailed = 18
)

// client is a client of a server with users.
type client struct{ *mongo.Client }

// as connects as a user. With an empty name, the client does not authenticate.
func as(t *testing.T, s *mongoemu.Server, name, password string) client {
	t.Helper()
	o := options.Client().ApplyURI(s.URI())
	if name != "" {
		o.SetAuth(options.Credential{Username: name, Password: password})
	}
	c, err := mongo.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return client{c}
}

// read returns the code with which a find is refused; 0 if it is answered.
func (c client) read(t *testing.T) int {
	t.Helper()
	err := c.Database("db").Collection("c").FindOne(t.Context(), bson.D{}).Err()
	var refusal mongo.ServerError
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return 0
	case errors.As(err, &refusal) && refusal.HasErrorCode(unauthorized):
		if !strings.Contains(err.Error(), "Command find requires authentication") {
			t.Errorf("the refusal says %v", err)
		}
		return unauthorized
	}
	// The driver gives the reply to the authentication as a text in some of its errors.
	if err != nil && strings.Contains(err.Error(), "(AuthenticationFailed) Authentication failed.") {
		return authenticationFailed
	}
	t.Fatalf("find returned %v", err)
	return 0
}

func TestUsersAuthenticate(t *testing.T) {
	t.Parallel()
	s := mongoemutest.Start(t, mongoemu.Config{Users: map[string]string{"writer": "first ünïcode pässword"}})
	for what, test := range map[string]struct {
		name, password string
		want           int
	}{
		"right password": {"writer", "first ünïcode pässword", 0},
		"wrong password": {"writer", "other", authenticationFailed},
		"unknown user":   {"reader", "first ünïcode pässword", authenticationFailed},
		"nobody":         {"", "", unauthorized},
	} {
		if got := as(t, s, test.name, test.password).read(t); got != test.want {
			t.Errorf("%s: a find is answered with code %d, want %d", what, got, test.want)
		}
	}
	if err := as(t, s, "", "").Ping(t.Context(), nil); err != nil {
		t.Errorf("ping needs no authentication: %v", err)
	}
}

func TestMechanismThatTheServerLacksIsRefused(t *testing.T) {
	t.Parallel()
	s := mongoemutest.Start(t, mongoemu.Config{Users: map[string]string{"writer": "first"}})
	for mechanism, code := range map[string]int32{"SCRAM-SHA-1": authenticationFailed, "PLAIN": 334} {
		reply := dialRaw(t, s).run("admin", bson.D{
			{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: mechanism}, {Key: "payload", Value: bson.Binary{Data: []byte("n,,n=writer,r=nonce")}},
		})
		if got := lookup(reply, "code"); got != code {
			t.Errorf("%s is answered with %v, want code %d", mechanism, reply, code)
		}
	}
	reply := dialRaw(t, s).run("admin", bson.D{{Key: "saslContinue", Value: 1}, {Key: "conversationId", Value: 1}, {Key: "payload", Value: bson.Binary{}}})
	if got := lookup(reply, "code"); got != int32(17) {
		t.Errorf("saslContinue without saslStart is answered with %v", reply)
	}
}

func lookup(reply bson.D, key string) any {
	for _, e := range reply {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// A changed password concerns new connections, a dropped user all of its connections.
func TestUsersChangeWhileClientsAreConnected(t *testing.T) {
	t.Parallel()
	s := mongoemutest.Start(t, mongoemu.Config{Users: map[string]string{"writer": "first"}})
	old := as(t, s, "writer", "first")
	if got := old.read(t); got != 0 {
		t.Fatalf("the right password is refused with code %d", got)
	}
	if err := s.SetUser("writer", "second"); err != nil {
		t.Fatal(err)
	}
	if got := old.read(t); got != 0 {
		t.Errorf("an open connection is refused with code %d after a change of the password", got)
	}
	if got := as(t, s, "writer", "first").read(t); got != authenticationFailed {
		t.Errorf("a new connection with the old password is answered with code %d", got)
	}
	if got := as(t, s, "writer", "second").read(t); got != 0 {
		t.Errorf("a new connection with the new password is refused with code %d", got)
	}
	s.DropUser("writer")
	if got := old.read(t); got != unauthorized {
		t.Errorf("an open connection of a dropped user is answered with code %d", got)
	}
	if err := s.SetUser("writer", "first"); err != nil {
		t.Fatal(err)
	}
	if got := old.read(t); got != unauthorized {
		t.Errorf("a connection of the dropped user is answered with code %d when another user has its name", got)
	}
}
