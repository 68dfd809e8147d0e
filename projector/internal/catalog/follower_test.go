package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// pipeline is that of the tests' pods.
const pipeline = "p"

// shared is what pods share: the catalog and the registry. log lists the calls of their engines.
type shared struct {
	t             *testing.T
	catalog, pods *mongo.Collection
	mu            sync.Mutex
	log           []string
	// broken is the error of every request of the pods, if set, and unrenewed that of
	// registrations.
	broken, unrenewed error
	// finds counts the reads of the pods.
	finds int
}

func newShared(t *testing.T) *shared {
	t.Helper()
	db := server.Database(t)
	return &shared{t: t, catalog: db.Collection(catalog.CatalogName), pods: db.Collection(catalog.RegistryName)}
}

func (s *shared) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// calls returns the calls of the engines since the last call of calls.
func (s *shared) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := strings.Join(s.log, "; ")
	s.log = nil
	return said
}

// fail sets the errors of the pods' requests.
func (s *shared) fail(broken, unrenewed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.unrenewed = broken, unrenewed
}

// request returns the error of a request of a pod.
func (s *shared) request(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == mongotest.Find {
		s.finds++
	}
	if name == mongotest.UpdateOne && s.unrenewed != nil {
		return s.unrenewed
	}
	return s.broken
}

// failing returns a collection for the requests of a pod.
func (s *shared) failing(c *mongo.Collection) *mongotest.Collection {
	failing := server.Collection(c)
	failing.Before = s.request
	return failing
}

// put changes the catalog like another process.
func (s *shared) put(e *catalog.Entry) {
	s.t.Helper()
	if _, err := catalog.NewCatalog(server.Collection(s.catalog), pipeline).Write(s.t.Context(), s.entry(e.Name), e); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shared) entry(name string) *catalog.Entry {
	s.t.Helper()
	entries, err := catalog.NewCatalog(server.Collection(s.catalog), pipeline).List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return entries[name]
}

// join registers another pod for a time.
func (s *shared) join(r catalog.Registration, lasts time.Duration) {
	r.Pipeline, r.Until = pipeline, time.Now().Add(lasts)
	server.Collection(s.pods).Set(s.t, bson.D{{Key: "_id", Value: r.Pod}}, r)
}

// member is one pod: its registration and its engine.
type member struct {
	*shared
	*catalog.Registry
	name string
	// slow is the time that the engine takes to pause, a [time.Duration].
	slow atomic.Int64
}

// engine records the calls of a member's engine.
type engine struct{ *member }

func (e engine) Set(_ context.Context, targets []catalog.Target) error {
	var names []string
	for _, t := range targets {
		names = append(names, fmt.Sprint(t.Projection, " ", t.Generation, " in ", t.Collection))
	}
	e.say("%s sets %s", e.name, strings.Join(names, " and "))
	return nil
}

func (e engine) Pause(ctx context.Context, name string) error {
	if poll.Wait(ctx, time.Duration(e.slow.Load())) != nil {
		return ctx.Err()
	}
	e.say("%s pauses %s", e.name, name)
	return nil
}

func (e engine) Continue(name string) { e.say("%s continues %s", e.name, name) }

// newMember makes a pod that declares users with the definition hash.
func (s *shared) newMember(t *testing.T, hash string, registerer prometheus.Registerer) (*member, *catalog.Follower) {
	t.Helper()
	const name = "one"
	m := &member{shared: s, name: name, Registry: catalog.NewRegistry(s.failing(s.pods), catalog.Registration{Pod: name, Pipeline: pipeline, Declares: podWith(hash).Declares})}
	return m, catalog.NewFollower(catalog.FollowerOptions{
		Pod: name, Pipeline: pipeline, Catalog: catalog.NewCatalog(s.failing(s.catalog), pipeline), Registry: m.Registry,
		Engine: engine{m}, Declares: []catalog.Declared{users(hash)},
		Able:       func(catalog.Target) error { return nil },
		Empty:      func(context.Context) (bool, error) { return true, nil },
		Used:       func(context.Context, catalog.Declared) (int64, error) { return 0, nil },
		Registerer: registerer, Logger: zerolog.Nop(),
	})
}

// follow runs a test with a pod that follows the catalog.
func follow(t *testing.T, test func(s *shared, m *member)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t)
		m, f := s.newMember(t, "a", nil)
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := testkit.Start(t, f.Run)
		test(s, m)
		stop()
		if alive, err := m.Alive(t.Context()); err != nil || slices.ContainsFunc(alive, func(r catalog.Registration) bool { return r.Pod == "one" }) {
			t.Errorf("the pod has not left the registry: %v", err)
		}
	})
}

func prepared(e *catalog.Entry) *catalog.Entry {
	next := in(e, e.Building.State)
	next.Building.UUID = bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}
	return next
}

func TestFollowerFollowsARebuild(t *testing.T) {
	t.Parallel()
	follow(t, func(s *shared, m *member) {
		expect := func(want string) {
			t.Helper()
			<-time.After(3 * time.Second)
			if calls := s.calls(); calls != want {
				t.Errorf("the engine got %q, want %q", calls, want)
			}
		}
		if calls := s.calls(); calls != "one sets users 1 in userReadModels" || m.Trusted() != nil {
			t.Errorf("at the start the engine got %q; trusted: %v", calls, m.Trusted())
		}
		s.join(podWith("b"), time.Hour)
		building := prepared(start(t, s.entry("users"), "b"))
		s.put(building)
		expect("one sets users 1 in userReadModels and users 2 in users.generation-2")
		promoting := in(building, catalog.Promoting)
		promoting.Building.Pause = "token"
		s.put(promoting)
		// The targets change too, because users 2 no longer defers.
		expect("one pauses users; one sets users 1 in userReadModels and users 2 in users.generation-2")
		s.put(catalog.Promote(promoting, by))
		expect("one sets users 2 in userReadModels; one continues users")
	})
}

// A verification can take days, and all pods read the whole catalog.
func TestCatalogIsReadOftenOnlyAroundAPromotion(t *testing.T) {
	t.Parallel()
	follow(t, func(s *shared, _ *member) {
		reads := func(e *catalog.Entry) int {
			s.put(e)
			<-time.After(3 * time.Second)
			s.mu.Lock()
			s.finds = 0
			s.mu.Unlock()
			<-time.After(10 * time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.finds
		}
		s.join(podWith("b"), time.Minute)
		verifying := in(prepared(start(t, s.entry("users"), "b")), catalog.Verifying)
		if n := reads(verifying); n > 20 {
			t.Errorf("%d reads in 10 s during a verification", n)
		}
		soon := in(verifying, catalog.Verifying)
		soon.Building.Pause = "soon"
		if n := reads(soon); n < 90 {
			t.Errorf("%d reads in 10 s after a promotion was announced", n)
		}
	})
}

// A promotion can be withdrawn before a pod has paused.
func TestFollowerContinuesAfterAPauseThatTimedOut(t *testing.T) {
	t.Parallel()
	follow(t, func(s *shared, m *member) {
		m.slow.Store(int64(time.Hour))
		building := prepared(start(t, s.entry("users"), "b"))
		promoting := in(building, catalog.Promoting)
		promoting.Building.Pause = "token"
		s.put(promoting)
		<-time.After(5 * time.Second)
		s.calls()
		s.put(in(promoting, catalog.Verifying))
		<-time.After(3 * time.Second)
		if calls := s.calls(); !strings.Contains(calls, "one continues users") {
			t.Errorf("the engine got %q", calls)
		}
	})
}

// If an operator cancelled the build of a pod's definition, the pod serves the live one
// and logs that once. The catalog does not change.
func TestGivenUpDefinitionIsNotBuiltAutomatically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t)
		s.put(givenUp(t, start(t, live("a"), "b")))
		var log bytes.Buffer
		_, f := s.newMember(t, "b", nil)
		f.Logger = zerolog.New(&log)
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if calls := s.calls(); calls != "one sets users 1 in userReadModels" || say(s.entry("users")) != "live 1 a garbage 2" {
			t.Errorf("the engine got %q, and the catalog has %s", calls, say(s.entry("users")))
		}
		if n := strings.Count(log.String(), "declared definition not built"); n != 1 {
			t.Errorf("%d lines say so:\n%s", n, log.String())
		}
	})
}

func TestPodThatCannotPauseInTimeRetries(t *testing.T) {
	t.Parallel()
	follow(t, func(s *shared, m *member) {
		m.slow.Store(int64(1500 * time.Millisecond))
		s.join(podWith("b"), time.Hour)
		s.put(in(prepared(start(t, s.entry("users"), "b")), catalog.Promoting))
		<-time.After(5 * time.Second)
		if calls := s.calls(); strings.Contains(calls, "pauses") || m.Trusted() != nil || strings.Contains(calls, "generation-2") {
			t.Errorf("the engine got %q before it had paused", calls)
		}
		m.slow.Store(0)
		<-time.After(2 * time.Second)
		if calls := s.calls(); !strings.Contains(calls, "one pauses users") {
			t.Errorf("the engine got %q", calls)
		}
	})
}

// Other pods may have gone on without a pod whose registration has expired. So it is
// trusted again only after it has read the catalog.
func TestPodWithAnExpiredRegistrationReadsTheCatalogBeforeItIsTrusted(t *testing.T) {
	t.Parallel()
	follow(t, func(s *shared, m *member) {
		s.fail(errors.New("no primary"), nil)
		<-time.After(catalog.Lease)
		if m.Trusted() == nil {
			t.Error("Trusted returned nil although the registration may have expired")
		}
		s.put(catalog.Promote(start(t, s.entry("users"), "b"), by))
		s.join(podWith("b"), time.Hour)
		s.calls()
		s.fail(nil, nil)
		<-time.After(10 * time.Second)
		if calls := s.calls(); calls != "one sets users 2 in userReadModels" || m.Trusted() != nil {
			t.Errorf("the engine got %q; trusted: %v", calls, m.Trusted())
		}
	})
}

func TestProjectionIsRetiredAfterALease(t *testing.T) {
	t.Parallel()
	follow(t, func(s *shared, _ *member) {
		s.put(catalog.Create(pipeline, catalog.Declared{Name: "old", Definition: catalog.Definition{Collection: "old"}}, by))
		<-time.After(catalog.Lease - time.Second)
		if s.entry("old").RetiredAt != nil {
			t.Error("retired early")
		}
		<-time.After(5 * time.Second)
		if s.entry("old").RetiredAt == nil || s.entry("old").Live == nil {
			t.Errorf("not retired: %+v", s.entry("old"))
		}
		if calls := s.calls(); !strings.HasSuffix(calls, "one sets users 1 in userReadModels") {
			t.Errorf("the engine got %q", calls)
		}
	})
}

// While nobody can renew a registration, all of them expire: other pods that are alive must
// not retire what this pod does not know.
func TestProjectionIsNotRetiredForAnOutage(t *testing.T) {
	t.Parallel()
	away := errors.New("no primary")
	for name, outage := range map[string]struct{ reads, renewals error }{"silent": {away, away}, "without a majority": {nil, away}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follow(t, func(s *shared, _ *member) {
				s.put(catalog.Create(pipeline, catalog.Declared{Name: "old", Definition: catalog.Definition{Collection: "old"}}, by))
				<-time.After(3 * time.Second) // for a moment, no pod declares it
				s.fail(outage.reads, outage.renewals)
				<-time.After(10 * time.Minute)
				s.fail(nil, nil)
				<-time.After(catalog.Lease - catalog.Heartbeat)
				if s.entry("old").RetiredAt != nil {
					t.Error("retired before its pod could renew its registration")
				}
				<-time.After(4 * catalog.Heartbeat)
				if s.entry("old").RetiredAt == nil {
					t.Error("not retired although no pod declares it")
				}
			})
		})
	}
}

// unreadable stores a registration whose field has another type, until a time, and returns its
// filter.
func (s *shared) unreadable(until any) bson.D {
	of := bson.D{{Key: "_id", Value: "mine"}}
	server.Collection(s.pods).Set(s.t, of, bson.D{{Key: "pipeline", Value: pipeline}, {Key: "declares", Value: "x"}, {Key: "until", Value: until}})
	return of
}

// A running pod may have a registration that cannot be read. While it may run, pods start and
// follow the catalog, and none changes the catalog.
func TestUnreadableRegistrationOfARunningPodDelaysChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t)
		s.unreadable(time.Now().Add(catalog.Lease))
		m, f := s.newMember(t, "a", nil)
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), `_id "mine" of collection projectors cannot be read`) {
			t.Errorf("promotions could go on: %v", err)
		}
		if s.entry("users") != nil {
			t.Error("the catalog was changed")
		}
		<-time.After(catalog.Lease)
		if err := f.Start(t.Context()); err != nil || s.entry("users") == nil {
			t.Errorf("the catalog was not changed after the registration had expired: %v", err)
		}
	})
}

func TestGenerationsAreInTheMetrics(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.put(start(t, live("a"), "b"))
	registry := prometheus.NewRegistry()
	_, f := s.newMember(t, "b", registry)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP penstock_projector_generation_building Number of the generation of a projection that is in the state (building, catching up, verifying, promoting, failed); absent if none is built. All processes report the same.
# TYPE penstock_projector_generation_building gauge
penstock_projector_generation_building{projection="users",state="building"} 2
# HELP penstock_projector_generation_live Number of the live generation of a projection, 0 before the first one is live. All processes report the same.
# TYPE penstock_projector_generation_live gauge
penstock_projector_generation_live{projection="users"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
