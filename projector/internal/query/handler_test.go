package query_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/query"
)

// after runs a change after the duration, in a synctest bubble.
func (s *service) after(t *testing.T, d time.Duration, change func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-time.After(d)
		change()
	}()
	t.Cleanup(func() { <-done })
}

func TestTimeoutGivesWatermarkAndHead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.set("u-1", query.Status{Watermark: 2})
		s.heads["u-1"] = 4
		for timeout, want := range map[string]time.Duration{"&timeout=500ms": 500 * time.Millisecond, "": 2 * time.Second, "&timeout=0s": 0} {
			start := time.Now()
			code, a, _ := s.get(t.Context(), t, "/applied?projection=users&aggregateId=u-1&eventId=3"+timeout)
			if code != http.StatusOK || a.Result != query.Timeout || a.Pairs[0].Result != query.Timeout || a.Pairs[0].Watermark != 2 || a.Pairs[0].Head == nil || *a.Pairs[0].Head != 4 {
				t.Errorf("%d: %+v", code, a)
			}
			if took := time.Since(start); took < want || took > want+100*time.Millisecond {
				t.Errorf("timeout %v took %v", want, took)
			}
		}
	})
}

func TestParkedIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.set("behind", query.Status{Watermark: 1})
		for name, test := range map[string]struct {
			status query.Status
			want   query.Result
		}{
			"at the event":                      {query.Status{Watermark: 2, Parked: &query.Parked{EventID: 3, Reason: "expression"}}, query.ParkedResult},
			"before the event":                  {query.Status{Watermark: 1, Parked: &query.Parked{EventID: 2, Reason: "expression"}}, query.ParkedResult},
			"after the event":                   {query.Status{Watermark: 3, Parked: &query.Parked{EventID: 4, Reason: "expression"}}, query.Applied},
			"watermark beyond the parked event": {query.Status{Watermark: 2, Parked: &query.Parked{EventID: 1, Reason: "expression"}}, query.Timeout},
			"resumes by itself":                 {query.Status{Watermark: 0, Parked: &query.Parked{EventID: 9, Reason: "unavailable", Resumes: true}}, query.ParkedResult},
		} {
			s.set("u-1", test.status)
			start := time.Now()
			_, a, _ := s.get(t.Context(), t, "/applied?projection=users&aggregateId=u-1&eventId=3&timeout=1s")
			if a.Result != test.want || (a.Pairs[0].Parked != nil) != (test.want == query.ParkedResult) {
				t.Errorf("%s: %+v", name, a)
			}
			if took := time.Since(start); test.want != query.Timeout && took > 25*time.Millisecond {
				t.Errorf("%s took %v", name, took)
			}
		}
		// One parked pair ends the request for all pairs.
		s.set("u-1", query.Status{Watermark: 2, Parked: &query.Parked{EventID: 3, Reason: "expression"}})
		_, a, _ := s.get(t.Context(), t, "/applied?projection=users&aggregateId=u-1&aggregateId=behind&eventId=3&timeout=1s")
		if a.Result != query.ParkedResult || a.Pairs[0].Parked.Reason != "expression" || a.Pairs[1].Result != query.Pending || a.Pairs[1].Head != nil {
			t.Errorf("several pairs: %+v", a)
		}
	})
}

func TestInvalidRequestsAreRefusedWithOneSentence(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for target, want := range map[string]struct {
		code int
		says string
	}{
		"/applied": {400, "projection is missing: ask as in /applied?projection=users&aggregateId=u-1&eventId=3"},
		"/applied?projection=users&aggregateId=1":                                                          {400, "eventId is missing"},
		"/applied?projection=users&aggregateId=1&eventId=0":                                                {400, `eventId is "0": give a whole number from 1`},
		"/applied?projection=users&aggregateId=1&eventId=x":                                                {400, `eventId is "x": give a whole number from 1`},
		"/applied?projection=users&aggregateId=&eventId=1":                                                 {400, "aggregateId has 0 bytes: give 1 to 8192"},
		"/applied?projection=users&aggregateId=" + strings.Repeat("a", event.MaxKeyBytes+1) + "&eventId=1": {400, "aggregateId has 8193 bytes: give 1 to 8192"},
		"/applied?projection=users&aggregateId=1&eventId=1&timeout=2":                                      {400, `timeout is "2": give one duration from 0s to 1m0s, such as 2s`},
		"/applied?projection=users&aggregateId=1&eventId=1&timeout=1h":                                     {400, `timeout is "1h"`},
		"/applied?projection=users&aggregateId=1&eventId=1&wait=1s":                                        {400, `the parameter "wait" is unknown`},
		"/applied?projection=users&aggregateId=1&aggregateId=2&eventId=1" + three():                        {400, "aggregateId is given 2 times and another parameter 3 times"},
		"/applied?projection=users&eventId=1" + strings.Repeat("&aggregateId=1", 101):                      {400, "there are 101 pairs: ask for at most 100 at once"},
		"/applied?projection=users&aggregateId=a%ff&eventId=1":                                             {400, `aggregateId is "a\xff", which is not UTF-8: encode the id in UTF-8`},
		"/applied?projection=%zz":                                                                          {400, "the query cannot be read"},
		"/applied?projection=items&aggregateId=1&eventId=1":                                                {404, `there is no projection "items": ask for one of orders, users`},
	} {
		code, _, says := s.get(t.Context(), t, target)
		if code != want.code || !strings.HasPrefix(says, want.says) || strings.Contains(says, "\n") {
			t.Errorf("%s: %d %q", target, code, says)
		}
	}
}

func three() string { return strings.Repeat("&eventId=1", 2) }

func TestStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.fail(errors.New("no primary"))
		code, _, says := s.get(t.Context(), t, "/applied?projection=users&aggregateId=1&eventId=1&timeout=1s")
		if code != http.StatusServiceUnavailable || says != "the read models cannot be read: no primary" {
			t.Errorf("%d %q", code, says)
		}
		// An outage that ends within the timeout does not fail the request.
		s.set("1", query.Status{Watermark: 1})
		s.after(t, 500*time.Millisecond, func() { s.fail(nil) })
		if code, a, says := s.get(t.Context(), t, "/applied?projection=users&aggregateId=1&eventId=1&timeout=1s"); a.Result != query.Applied {
			t.Errorf("%d %+v %q", code, a, says)
		}
		s.names = nil
		if code, _, says := s.get(t.Context(), t, "/applied?projection=users&aggregateId=1&eventId=1"); code != http.StatusServiceUnavailable {
			t.Errorf("before the catalog is read: %d %q", code, says)
		}
	})
}

// hundred is a request for a hundred aggregates, which no other request asks for.
func hundred(request int, timeout string) string {
	var target strings.Builder
	target.WriteString("/applied?projection=users&eventId=1&timeout=" + timeout)
	for i := range 100 {
		fmt.Fprintf(&target, "&aggregateId=%d-%d", request, i)
	}
	return target.String()
}

// A lookup of a silent store ends in time, however many requests it would take. A client waits for at
// most two.
func TestSilentStoreIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.silent = true
		var group sync.WaitGroup
		began := time.Now()
		for i := range 30 {
			group.Go(func() {
				if code, _, says := s.get(t.Context(), t, hundred(i, "1s")); code != http.StatusServiceUnavailable {
					t.Errorf("%d %s", code, says)
				}
			})
		}
		group.Wait()
		if waited := time.Since(began); waited > 21*time.Second {
			t.Errorf("answered after %v", waited)
		}
	})
}

func TestStopAnswersWaitingRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.after(t, time.Second, s.stop)
		start := time.Now()
		for _, request := range []string{"waiting", "later"} {
			code, _, says := s.get(t.Context(), t, "/applied?projection=users&aggregateId=1&eventId=1&timeout=1m")
			if code != http.StatusServiceUnavailable || !strings.Contains(says, "stopping") {
				t.Errorf("a %s request gets %d %q", request, code, says)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the answers took %v", took)
		}
	})
}

func TestRequestOfADisconnectedClientIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.get(ctx, t, "/applied?projection=users&aggregateId=1&eventId=1&timeout=1m")
		if n := s.poller.Waiting(); n != 0 {
			t.Errorf("%d pairs are still waited for", n)
		}
		<-time.After(time.Second)
		s.takeLookups()
		<-time.After(time.Minute)
		if lookups := s.takeLookups(); len(lookups) > 0 {
			t.Errorf("%d lookups although no request waits, want 0", len(lookups))
		}
	})
}

// TestWaitingRequestsShareOneLookup checks that the number of lookups depends on
// the time and not on the number of waiting requests, and that waiting requests are
// bounded.
func TestWaitingRequestsShareOneLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const waits, interval, period = query.MaxWaits, 25 * time.Millisecond, time.Second
		s := newService(t)
		var group sync.WaitGroup
		for i := range waits {
			group.Go(func() {
				// Two requests wait for each aggregate.
				code, a, says := s.get(t.Context(), t, fmt.Sprintf("/applied?projection=users&aggregateId=%d&eventId=1&timeout=1m", i%(waits/2)))
				if code != http.StatusOK || a.Result != query.Applied {
					t.Errorf("%d %+v %s", code, a, says)
				}
			})
		}
		<-time.After(100 * time.Millisecond)
		s.takeLookups()
		if n := s.poller.Waiting(); n != waits {
			t.Errorf("%d pairs are waited for, want %d", n, waits)
		}
		if code, _, says := s.get(t.Context(), t, "/applied?projection=users&aggregateId=1&eventId=1"); code != http.StatusServiceUnavailable || !strings.Contains(says, "too many requests wait") {
			t.Errorf("beyond the bound: %d %q", code, says)
		}
		<-time.After(period)
		lookups := s.takeLookups()
		if limit := int(period/interval) + 1; len(lookups) > limit || len(lookups) == 0 {
			t.Errorf("%d lookups in %v, want at most %d", len(lookups), period, limit)
		}
		for _, keys := range lookups {
			if keys != waits/2 {
				t.Fatalf("a lookup asked for %d keys, want %d", keys, waits/2)
			}
		}
		if s.duplicates > 0 {
			t.Errorf("%d keys were asked for twice in one lookup", s.duplicates)
		}
		if err := testutil.GatherAndCompare(s.registry, strings.NewReader(
			"# HELP penstock_projector_applied_waiting_pairs Events that requests to /applied wait for now, counted once for each read model.\n"+
				"# TYPE penstock_projector_applied_waiting_pairs gauge\n"+
				"penstock_projector_applied_waiting_pairs 2000\n"), "penstock_projector_applied_waiting_pairs"); err != nil {
			t.Error(err)
		}
		for i := range waits / 2 {
			s.set(fmt.Sprint(i), query.Status{Watermark: 1})
		}
		group.Wait()
		if n := s.poller.Waiting(); n != 0 {
			t.Errorf("%d pairs are still waited for", n)
		}
	})
}

// The pairs that wait are bounded, and so are the keys of a lookup, even if more pairs wait.
func TestPairsAndKeysOfALookupAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				if code, a, says := s.get(t.Context(), t, hundred(i, "100ms")); a.Result != query.Timeout {
					t.Errorf("%d %+v %s", code, a, says)
				}
			})
		}
		<-time.After(50 * time.Millisecond)
		if code, _, says := s.get(t.Context(), t, "/applied?projection=users&aggregateId=1&eventId=1"); code != http.StatusServiceUnavailable || !strings.Contains(says, "too many requests wait") {
			t.Errorf("beyond the bound: %d %q", code, says)
		}
		group.Wait()
		for _, keys := range s.takeLookups() {
			if keys > 1000 {
				t.Errorf("a lookup asked for %d keys", keys)
			}
		}
	})
}
