package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// brokenFor is how long one aggregate in every bucket is broken.
	brokenFor = 2 * time.Minute
	// brokenRound is the time between two rounds of events.
	brokenRound = 100 * time.Millisecond
	// brokenLag bounds the 99th percentile of the time from an event of a healthy
	// aggregate to its read model.
	brokenLag = 2 * time.Second

	brokenBuckets    = 16
	healthyInBucket  = 8
	healthyPerRound  = 8
	accounts         = "accountReadModels"
	missingEventID   = 3
	accountDeposited = "AccountDepositedEvent"
)

const accountProjections = `
projections:
  - name: accounts
    collection: accountReadModels
    on:
      AccountDepositedEvent: {inc: {balance: payload.amount}}
`

// foldAccount folds the events independently of accountProjections.
func foldAccount(events []workload.Event) (string, bson.M) {
	var balance int64
	for _, ev := range events {
		for _, e := range ev.Payload {
			if amount, ok := e.Value.(int64); ok && e.Key == "amount" {
				balance += amount
			}
		}
	}
	return accounts, bson.M{"balance": balance}
}

// One aggregate in every bucket is broken for two minutes. That is longer than a session is
// held, and longer than it takes to park the aggregate. Meanwhile all other events reach
// their read models as fast as before. When the fault ends, every read model becomes right
// by itself.
func TestBrokenAggregatesDelayNoOthers(t *testing.T) {
	// It measures how long events take, so only its own scenarios run meanwhile.
	for name, broken := range map[string]struct {
		reason string
		// hole omits an event of every broken aggregate.
		hole bool
	}{
		"writes fail":         {reason: "unavailable"},
		"an event is missing": {reason: "missing", hole: true},
	} {
		runScene(t, name, func(t *testing.T) {
			t.Helper()
			healthy, bad := accountsInBuckets(t)
			s := newScenario(t, &workload.Workload{
				Name: "accounts", Projections: []byte(accountProjections), Collections: []string{accounts}, Oracle: workload.Oracle{Fold: foldAccount},
			})
			store := capability[documentFailer](s, "fail writes of single documents")
			s.SetEnv("PENSTOCK_SESSION_MODE=bucket", fmt.Sprint("PENSTOCK_SESSION_BUCKETS=", brokenBuckets))
			s.startPublisher(0)
			s.SetEnv("PENSTOCK_SESSION_TENURE=30s")
			s.startProjector(0)
			s.startProjector(1)
			s.ready()
			lags := s.watchLags(accounts, bad)
			a := &accountLoad{scenario: s, lags: lags, next: make(map[string]int64)}

			// A projector must have written something first, as evidence that writing
			// works.
			a.round(healthy, false)
			a.round(bad, false)
			lags.awaitAll(t)
			if !broken.hole {
				store.FailDocuments(accounts, bad)
			}
			rounds := int(brokenFor / brokenRound)
			tick := time.NewTicker(brokenRound)
			defer tick.Stop()
			for i := range rounds {
				<-tick.C
				turn := make([]string, 0, healthyPerRound+1)
				for j := range healthyPerRound {
					turn = append(turn, healthy[(i*healthyPerRound+j)%len(healthy)])
				}
				a.round(append(turn, bad[i%len(bad)]), broken.hole)
			}
			lags.awaitAll(t)
			lags.check(t)
			s.await(fmt.Sprintf("%d aggregates parked as %s", len(bad), broken.reason), func() bool {
				n, err := s.state.Collection("parked").CountDocuments(s.t.Context(), bson.D{{Key: "reason", Value: broken.reason}})
				return err == nil && int(n) == len(bad)
			})

			store.HealStore()
			a.fillHoles()
			s.awaitReadModels()
			s.await("all messages settled, none in the dead-letter queue, and nothing parked", func() bool {
				backlog, err := s.backend.Backlog()
				parked, failed := s.state.Collection("parked").CountDocuments(s.t.Context(), bson.D{})
				return err == nil && failed == nil && backlog == harness.Backlog{} && parked == 0
			})
		})
	}
}

// accountsInBuckets names one aggregate to break in every bucket, and healthy ones.
func accountsInBuckets(t *testing.T) (healthy, bad []string) {
	t.Helper()
	keys, err := event.NewSessionKeys(event.SessionPerBucket, brokenBuckets)
	if err != nil {
		t.Fatal(err)
	}
	inBucket := make(map[string]int)
	for i := 0; len(healthy)+len(bad) < brokenBuckets*(healthyInBucket+1); i++ {
		id := fmt.Sprint("account-", i)
		bucket := keys.Key(id)
		switch inBucket[bucket]++; {
		case inBucket[bucket] == 1:
			bad = append(bad, id)
		case inBucket[bucket] <= healthyInBucket+1:
			healthy = append(healthy, id)
		}
	}
	return healthy, bad
}

// accountLoad stores events of accounts.
type accountLoad struct {
	*scenario
	lags  *lags
	next  map[string]int64
	holes []workload.Event
}

// round stores an event of each aggregate. With holes, it keeps the missing events of
// broken aggregates for later.
func (a *accountLoad) round(aggregates []string, holes bool) {
	a.t.Helper()
	now := time.Now()
	var events []workload.Event
	for _, id := range aggregates {
		a.next[id]++
		ev := workload.Event{
			AggregateID: id, AggregateType: "Account", EventID: a.next[id], EventType: accountDeposited,
			Timestamp: now, Payload: bson.D{{Key: "amount", Value: a.next[id]}},
		}
		if holes && a.lags.broken(id) && ev.EventID == missingEventID {
			a.holes = append(a.holes, ev)
			continue
		}
		a.lags.stored(id, ev.EventID, now)
		events = append(events, ev)
	}
	if len(events) == 0 {
		return
	}
	if _, err := a.events.InsertMany(a.t.Context(), events); err != nil {
		a.t.Fatal(err)
	}
}

// fillHoles stores the missing events.
func (a *accountLoad) fillHoles() {
	a.t.Helper()
	if len(a.holes) == 0 {
		return
	}
	if _, err := a.events.InsertMany(a.t.Context(), a.holes); err != nil {
		a.t.Fatal(err)
	}
}

// lags measures the time from the timestamp of a healthy aggregate's event to its read
// model on a majority. It watches the change stream of the read models.
type lags struct {
	ignored []string
	mu      sync.Mutex
	open    map[string]map[int64]time.Time
	taken   []time.Duration
	changed chan struct{}
}

// watchLags watches a collection of read models until the test ends.
func (s *scenario) watchLags(collection string, broken []string) *lags {
	s.t.Helper()
	l := &lags{ignored: broken, open: make(map[string]map[int64]time.Time), changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	stream, err := s.models.Collection(collection).Watch(ctx, bson.A{}, options.ChangeStream())
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stream.Next(ctx) {
			id, _ := stream.Current.Lookup("documentKey", "_id").StringValueOK()
			last, err := stream.Current.LookupErr("updateDescription", "updatedFields", "lastEventId")
			if err != nil {
				last = stream.Current.Lookup("fullDocument", "lastEventId")
			}
			n, _ := last.AsInt64OK()
			l.shown(id, n, time.Now())
		}
		if ctx.Err() == nil {
			s.t.Errorf("the change stream of the read models ended: %v", stream.Err())
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
		_ = stream.Close(context.Background())
	})
	return l
}

func (l *lags) broken(id string) bool { return slices.Contains(l.ignored, id) }

// stored records an event that is about to be stored.
func (l *lags) stored(id string, eventID int64, at time.Time) {
	if l.broken(id) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[id] == nil {
		l.open[id] = make(map[int64]time.Time)
	}
	l.open[id][eventID] = at
}

// shown records that a read model has the events of an aggregate up to one.
func (l *lags) shown(id string, upTo int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for eventID, at := range l.open[id] {
		if eventID <= upTo {
			l.taken = append(l.taken, now.Sub(at))
			delete(l.open[id], eventID)
		}
	}
	if len(l.open[id]) == 0 {
		delete(l.open, id)
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// awaitAll waits until every stored event is in its read model.
func (l *lags) awaitAll(t *testing.T) {
	t.Helper()
	timeout := time.NewTimer(settleTimeout())
	defer timeout.Stop()
	for {
		l.mu.Lock()
		open := len(l.open)
		l.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-l.changed:
		case <-timeout.C:
			t.Fatalf("%d healthy aggregates are behind after %s", open, settleTimeout())
		}
	}
}

// check compares the 99th percentile with its bound.
func (l *lags) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.taken)
	quantile := func(q float64) time.Duration { return l.taken[min(int(q*float64(len(l.taken))), len(l.taken)-1)] }
	t.Logf("%d events of healthy aggregates took %s in the median, %s at the 99th percentile, %s at most",
		len(l.taken), quantile(0.5), quantile(0.99), quantile(1))
	if p99 := quantile(0.99); p99 >= brokenLag {
		t.Errorf("the 99th percentile is %s, not below %s", p99, brokenLag)
	}
}
