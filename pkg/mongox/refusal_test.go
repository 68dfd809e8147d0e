package mongox_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// poolClearedForError is the driver's error after a pool was cleared, with the driver's text.
type poolClearedForError struct{ reason error }

func (e poolClearedForError) Error() string {
	return fmt.Sprintf("connection pool for db:27017 was cleared because another operation failed with: %v", e.reason)
}
func (poolClearedForError) Retryable() bool { return true }

func TestAccessRefused(t *testing.T) {
	t.Parallel()
	wrongPassword := mongo.CommandError{Code: mongox.CodeAuthenticationFailed, Name: "AuthenticationFailed", Message: "Authentication failed."}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":                        {nil, false},
		"right":                       {mongo.CommandError{Code: mongox.CodeUnauthorized}, true},
		"password":                    {fmt.Errorf("connect: %w", wrongPassword), true},
		"proxy of Atlas":              {mongo.CommandError{Code: mongox.CodeAtlasError}, true},
		"pool cleared for a password": {fmt.Errorf("find: %w", poolClearedForError{wrongPassword}), true},
		"pool cleared for a network":  {poolClearedForError{errors.New("connection reset")}, false},
		"pool exhausted":              {topology.WaitQueueTimeoutError{}, false},
		"election":                    {mongo.CommandError{Code: 189, Message: "(AuthenticationFailed)"}, false},
	} {
		if got := mongox.AccessRefused(test.err); got != test.want {
			t.Errorf("%s: AccessRefused returned %v for %v", name, got, test.err)
		}
	}
}

// TestRefusalEndsIfTheProcessAsksNoMore: a publisher that was refused releases its lease, so another
// one leads, and nothing accepts the first one again until it leads.
func TestRefusalEndsIfTheProcessAsksNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := mongo.CommandError{Code: mongox.CodeUnauthorized}
		access := &mongox.Access{After: 10 * time.Minute, Logger: zerolog.Nop()}
		access.Served()
		for range 9 {
			if access.Final(refused) || access.Check(t.Context()) == nil {
				t.Fatal("the first refusals are final, or the process is ready")
			}
			<-time.After(time.Minute)
		}
		<-time.After(15 * time.Minute)
		if err := access.Check(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if access.Final(refused) {
			t.Error("the refusals of a term ended the process in a later term")
		}
	})
}
