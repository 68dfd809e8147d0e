package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// A Secret is read only at the start, so a projector that MongoDB refuses must end some
// time. A role that is changed for a minute must not end it, and neither must an outage.
func TestLastingRefusalByMongoDBEndsTheProjector(t *testing.T) {
	t.Parallel()
	const after = 10 * time.Minute
	refused := mongo.CommandError{Code: mongox.CodeAuthenticationFailed, Name: "AuthenticationFailed", Message: "Authentication failed."}
	revoked := mongo.CommandError{Code: mongox.CodeUnauthorized, Name: "Unauthorized", Message: "not authorized on shop"}
	for _, test := range []struct {
		name  string
		fault error
		lasts time.Duration
		ends  bool
	}{
		{"password changed", refused, time.Hour, true},
		{"role revoked", revoked, time.Hour, true},
		{"role changed", revoked, after - time.Minute, false},
		{"outage", errors.New("no primary"), time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				access := &mongox.Access{After: after, Service: "projector"}
				begun := time.Now()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				timer := time.AfterFunc(2*time.Hour, stop)
				defer timer.Stop()
				err := watchAccess(ctx, access, func(context.Context) error {
					if now := time.Since(begun); now >= time.Minute && now < time.Minute+test.lasts {
						return fmt.Errorf("read: %w", test.fault)
					}
					return nil
				})
				took := time.Since(begun)
				switch {
				case !test.ends && err != nil:
					t.Errorf("ended with %v after %v", err, took)
				case !test.ends && access.Check(ctx) != nil:
					t.Errorf("not ready after the refusals: %v", access.Check(ctx))
				case test.ends && (took < after+time.Minute || took > after+2*time.Minute):
					t.Errorf("ended after %v, want after 11 min", took)
				case test.ends && (!errors.As(err, new(mongo.CommandError)) || !strings.Contains(err.Error(), mongox.RemedyCredentials)):
					t.Errorf("ended with %v, want the refusal and its remedy", err)
				}
			})
		})
	}
}
