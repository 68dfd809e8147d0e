package query

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// maxRequestPairs bounds the pairs of a request.
	maxRequestPairs = 100
	// defaultTimeout is the timeout of a request without one.
	defaultTimeout = 2 * time.Second
	// MaxTimeout is the longest timeout that a request may have.
	MaxTimeout = time.Minute
)

// request is a client's request.
type request struct {
	pairs   []Pair
	timeout time.Duration
}

// parseRequest reads the query of a URL. Each of projection, aggregateId and eventId is
// given once for all pairs, or once for each pair. The text of the error is for the
// client.
func parseRequest(query string, firstEvent int64) (request, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return request{}, fmt.Errorf("the query cannot be read: %w", err)
	}
	known := []string{"projection", "aggregateId", "eventId", "timeout"}
	for name := range values {
		if !slices.Contains(known, name) {
			return request{}, fmt.Errorf("the parameter %q is unknown: use %s", name, strings.Join(known, ", "))
		}
	}
	r := request{timeout: defaultTimeout}
	if given := values["timeout"]; len(given) > 0 {
		r.timeout, err = time.ParseDuration(given[0])
		if len(given) > 1 || err != nil || r.timeout < 0 || r.timeout > MaxTimeout {
			return request{}, fmt.Errorf("timeout is %q: give one duration from 0s to %v, such as 2s", strings.Join(given, ", "), MaxTimeout)
		}
	}
	n := 0
	for _, name := range known[:3] {
		if len(values[name]) == 0 {
			return request{}, fmt.Errorf("%s is missing: ask as in /applied?projection=users&aggregateId=u-1&eventId=3", name)
		}
		n = max(n, len(values[name]))
	}
	if n > maxRequestPairs {
		return request{}, fmt.Errorf("there are %d pairs: ask for at most %d at once", n, maxRequestPairs)
	}
	for _, name := range known[:3] {
		if got := len(values[name]); got != 1 && got != n {
			return request{}, fmt.Errorf("%s is given %d times and another parameter %d times: give each once, or once for each pair", name, got, n)
		}
	}
	at := func(name string, i int) string { return values[name][min(i, len(values[name])-1)] }
	for i := range n {
		id, number := at("aggregateId", i), at("eventId", i)
		eventID, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil || eventID < firstEvent:
			return request{}, fmt.Errorf("eventId is %q: give a whole number from %d", number, firstEvent)
		case id == "" || len(id) > event.MaxKeyBytes:
			return request{}, fmt.Errorf("aggregateId has %d bytes: give 1 to %d", len(id), event.MaxKeyBytes)
		case !utf8.ValidString(id):
			return request{}, fmt.Errorf("aggregateId is %q, which is not UTF-8: encode the id in UTF-8", id)
		}
		r.pairs = append(r.pairs, Pair{Key: Key{Projection: at("projection", i), AggregateID: id}, EventID: eventID})
	}
	return r, nil
}
