package term

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// refusals are the errors of MongoDB, and of the proxy of Atlas, for missing rights.
func refusals() []mongo.CommandError {
	return []mongo.CommandError{
		{Code: mongox.CodeUnauthorized, Name: "Unauthorized", Message: "not authorized on shop"},
		{Code: mongox.CodeAuthenticationFailed, Name: "AuthenticationFailed", Message: "Authentication failed."},
		{Code: mongox.CodeAtlasError, Name: "AtlasError", Message: "internal error"},
	}
}

// electWithFault runs a publisher whose event store fails with fault between the times from
// and to. It returns the publisher's error and how long it ran.
func electWithFault(t *testing.T, fault error, from, to, runs time.Duration) (*setup, time.Duration, error) {
	t.Helper()
	s := newSetup(t, random())
	s.runner.access = &mongox.Access{After: 10 * time.Minute, Service: "publisher", Logger: zerolog.Nop()}
	begun := time.Now()
	s.store.readFault = func() error {
		if now := time.Since(begun); now >= from && now < to {
			return fault
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	timer := time.AfterFunc(runs, stop)
	defer timer.Stop()
	go func() {
		for number := int64(1); ctx.Err() == nil; number++ {
			s.store.insert("a", number, false)
			_ = poll.Wait(ctx, 10*time.Second)
		}
	}()
	err := s.runner.Run(ctx, alone(t))
	return s, time.Since(begun), err
}

func TestOnlyALastingRefusalByMongoDBEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults   []mongo.CommandError
		from, to time.Duration
		// ends says that the process ends, after least at the earliest and most at the latest.
		ends        bool
		least, most time.Duration
	}{
		"for some minutes": {refusals(), time.Minute, 5 * time.Minute, false, 0, 0},
		"for too long":     {refusals()[:2], time.Minute, time.Hour, true, 11 * time.Minute, 15 * time.Minute},
		"at the start":     {refusals()[:2], 0, time.Hour, true, 0, 10 * time.Second},
	} {
		for _, fault := range test.faults {
			t.Run(fault.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					runs := time.Hour
					if !test.ends {
						runs = 15 * time.Minute
					}
					s, took, err := electWithFault(t, fault, test.from, test.to, runs)
					ready := s.runner.access.Check(t.Context())
					if test.ends {
						if !errors.As(err, new(mongo.CommandError)) || took < test.least || took > test.most || test.least > 0 && ready == nil {
							t.Errorf("ended with %v after %v, want the refusal after %v to %v; ready: %v", err, took, test.least, test.most, ready)
						}
						return
					}
					if err != nil || ready != nil {
						t.Errorf("ended with %v, not ready after the refusals: %v", err, ready)
					}
					for number := 1; number < 80; number++ {
						if !s.topic.has(fmt.Sprint("a/", number)) {
							t.Fatalf("event %d is not published", number)
						}
					}
				})
			})
		}
	}
}

// An event store that can be read does not make up for writes that are refused: without the
// quarantine, the terms end at the same event for ever, and without saves each failover repeats
// more. A process whose writes are refused is not ready, and ends in the end.
func TestLastingRefusalOfWritesEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(s *setup, access *mongox.Access, fault func() error){
		"quarantine": func(s *setup, access *mongox.Access, fault func() error) {
			s.runner.storing = access
			s.quarantine.Before = func(context.Context, string) error { return fault() }
		},
		"checkpoint": func(s *setup, access *mongox.Access, fault func() error) {
			s.runner.saving.Access, s.checkpoint.fault = access, fault
		},
	} {
		for lasts, ends := range map[time.Duration]bool{5 * time.Minute: false, time.Hour: true} {
			t.Run(fmt.Sprintf("%s for %s", name, lasts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newSetup(t, random())
					access := &mongox.Access{After: 10 * time.Minute, Service: "publisher"}
					access.Served()
					s.runner.access.After, s.runner.standby.After = 10*time.Minute, time.Hour
					s.runner.standby.Served()
					begun := time.Now()
					refuse(s, access, func() error {
						if passed := time.Since(begun); passed > 10*time.Second && passed < lasts {
							return mongo.CommandError{Code: mongox.CodeUnauthorized, Name: "Unauthorized", Message: "not authorized on state"}
						}
						return nil
					})
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					defer time.AfterFunc(30*time.Minute, stop).Stop()
					var unready error
					defer time.AfterFunc(3*time.Minute, func() { unready = access.Check(ctx) }).Stop()
					go func() {
						for number := int64(1); ctx.Err() == nil && number < 1000; number++ {
							s.store.insert("a", number, number%20 == 0)
							_ = poll.Wait(ctx, time.Second)
						}
					}()
					err := s.runner.Run(ctx, alone(t))
					took := time.Since(begun)
					if unready == nil {
						t.Error("ready after minutes of refused writes")
					}
					switch {
					case ends && (!errors.As(err, new(mongo.CommandError)) || took < 10*time.Minute || took > 15*time.Minute):
						t.Errorf("ended with %v after %v, want the refusal after 10 min", err, took)
					case ends:
					case err != nil || access.Check(t.Context()) != nil:
						t.Errorf("ended with %v after %v, ready: %v", err, took, access.Check(t.Context()))
					default:
						s.published(t)
					}
				})
			})
		}
	}
}

// A process that does not lead runs no term, and a process whose lease is in the same
// MongoDB never leads while it is refused. Both must end when MongoDB has refused them for
// too long, because only a restart can give them new credentials.
func TestLastingRefusalByMongoDBEndsAStandby(t *testing.T) {
	t.Parallel()
	for _, fault := range refusals() {
		for lasts, ends := range map[time.Duration]bool{5 * time.Minute: false, time.Hour: true} {
			t.Run(fmt.Sprintf("%s for %s", fault.Name, lasts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newSetup(t, random())
					s.runner.standby = &mongox.Access{After: 10 * time.Minute, Service: "publisher", Logger: zerolog.Nop()}
					s.runner.standby.Works()
					begun := time.Now()
					s.runner.options.Collection = func(ctx context.Context) (mongox.CollectionID, error) {
						if now := time.Since(begun); now >= time.Minute && now < time.Minute+lasts {
							return mongox.CollectionID{}, fault
						}
						return s.store.identify(ctx)
					}
					// Requests to MongoDB must have no deadline, so the context has none.
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					timer := time.AfterFunc(2*time.Hour, stop)
					defer timer.Stop()
					err := s.runner.guard(ctx)
					took := time.Since(begun)
					if !ends {
						if err != nil {
							t.Errorf("ended with %v after %v", err, took)
						}
						if err := s.runner.standby.Check(t.Context()); err != nil {
							t.Errorf("not ready after the refusals: %v", err)
						}
						return
					}
					if !errors.As(err, new(mongo.CommandError)) || took < 11*time.Minute || took > 12*time.Minute {
						t.Errorf("ended with %v after %v, want the refusal after 11 min", err, took)
					}
					if err := s.runner.standby.Check(t.Context()); err == nil {
						t.Error("ready while MongoDB refuses")
					}
				})
			})
		}
	}
}

// A standby that MongoDB has served is no process at its start.
func TestRefusalAfterATakeoverIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.access = &mongox.Access{After: 10 * time.Minute, Service: "publisher", Logger: zerolog.Nop()}
		s.runner.standby.After = time.Hour
		standby, takeover := context.WithCancel(t.Context())
		time.AfterFunc(39*time.Second, takeover)
		if err := s.runner.guard(standby); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		s.checkpoint.fault = func() error {
			if time.Since(begun) < time.Minute {
				return mongo.CommandError{Code: mongox.CodeUnauthorized, Name: "Unauthorized", Message: "not authorized on state"}
			}
			return nil
		}
		s.store.insert("a", 1, false)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		time.AfterFunc(5*time.Minute, stop)
		if err := s.runner.Run(ctx, alone(t)); err != nil {
			t.Errorf("ended with %v after %v", err, time.Since(begun))
		}
		if !s.topic.has("a/1") {
			t.Error("a/1 is not published after the refusals")
		}
	})
}
