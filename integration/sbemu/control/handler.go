package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// Duration is a time.Duration in Go's text format.
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("parse duration: %w", err)
	}

	*d = Duration(v)

	return nil
}

// Latency is the body of /faults/latency.
type Latency struct {
	ToServer Duration `json:"toServer"`
	ToClient Duration `json:"toClient"`
}

// Throttle is the body of /faults/throttle. One of the two fields is set.
type Throttle struct {
	Duration         Duration `json:"duration,omitzero"`
	CreditsPerSecond *int     `json:"creditsPerSecond,omitempty"` // 0 lifts the limit
}

// RefuseSends is the body of /faults/refuse-sends.
type RefuseSends struct {
	Entity    string `json:"entity"` // "": any
	Count     int    `json:"count"`
	Condition string `json:"condition"`
}

// SelectMessages is the body of /faults/lose-messages and /faults/expire-messages.
type SelectMessages struct {
	Entity string `json:"entity"`
	// Matches is a regular expression of message ids; "" matches all.
	Matches string `json:"matches"`
}

// LoseSessionLock is the body of /faults/lose-session-lock.
type LoseSessionLock struct {
	Entity  string `json:"entity"`
	Session string `json:"session"`
}

// DropConnections is the body of /faults/drop-connections. It selects the connections with
// these ids, or those with a link to an entity. Without either, it selects all.
type DropConnections struct {
	IDs    []uint64 `json:"ids,omitempty"`
	Entity string   `json:"entity,omitempty"`
}

// DetachLinks is the body of /faults/detach-links.
type DetachLinks struct {
	Entity    string `json:"entity"`
	Condition string `json:"condition"`
}

// errBody says that the body of a request is not valid.
var errBody = errors.New("unusable request")

// NewHandler returns the handler that controls s.
func NewHandler(s *sbemu.Server) http.Handler {
	mux := http.NewServeMux()

	get(mux, "/totals", func(r *http.Request) (any, error) { return s.Totals(entity(r)) })
	get(mux, "/accepted", func(r *http.Request) (any, error) { return s.Accepted(entity(r)) })
	get(mux, "/counts", func(r *http.Request) (any, error) { return s.Counts(entity(r)) })
	get(mux, "/sessions", func(r *http.Request) (any, error) { return s.Sessions(entity(r)) })
	get(mux, "/connections", func(*http.Request) (any, error) { return s.Connections(), nil })
	get(mux, "/messages", func(r *http.Request) (any, error) {
		from, limit := int64(0), 100

		if err := errors.Join(number(r, "from", &from), number(r, "limit", &limit)); err != nil {
			return nil, err
		}

		return s.Messages(entity(r), from, limit)
	})

	post(mux, "/faults/latency", func(b Latency) (any, error) {
		s.SetLatency(time.Duration(b.ToServer), time.Duration(b.ToClient))

		return struct{}{}, nil
	})
	post(mux, "/faults/throttle", func(b Throttle) (any, error) {
		if b.CreditsPerSecond != nil {
			s.LimitCredits(*b.CreditsPerSecond)
		} else {
			s.Throttle(time.Duration(b.Duration))
		}

		return struct{}{}, nil
	})
	post(mux, "/faults/refuse-sends", func(b RefuseSends) (any, error) {
		if b.Count < 1 || b.Condition == "" {
			return nil, fmt.Errorf("%w: count and condition are needed", errBody)
		}

		s.RefuseSends(b.Entity, b.Count, b.Condition)

		return struct{}{}, nil
	})
	post(mux, "/faults/lose-messages", selecting(s.LoseMessages))
	post(mux, "/faults/expire-messages", selecting(s.ExpireMessages))
	post(mux, "/faults/lose-session-lock", func(b LoseSessionLock) (any, error) {
		return struct{}{}, s.LoseSessionLock(b.Entity, b.Session)
	})
	post(mux, "/faults/drop-connections", func(b DropConnections) (any, error) {
		return map[string]int{"dropped": s.DropConnections(b.selects)}, nil
	})
	post(mux, "/faults/detach-links", func(b DetachLinks) (any, error) {
		if b.Condition == "" {
			return nil, fmt.Errorf("%w: condition is needed", errBody)
		}

		return struct{}{}, s.DetachLinks(b.Entity, b.Condition)
	})
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		answer(w, struct{}{}, nil)
	})

	return mux
}

// selecting makes the handler of a fault for the messages whose ids match.
func selecting(order func(entity string, matches func(messageID string) bool) error) func(SelectMessages) (any, error) {
	return func(b SelectMessages) (any, error) {
		pattern, err := regexp.Compile(b.Matches)
		if err != nil {
			return nil, fmt.Errorf("%w: matches: %w", errBody, err)
		}

		return struct{}{}, order(b.Entity, pattern.MatchString)
	}
}

func (b DropConnections) selects(c sbemu.Connection) bool {
	if len(b.IDs) > 0 {
		return slices.Contains(b.IDs, c.ID)
	}

	if b.Entity == "" {
		return true
	}

	return slices.ContainsFunc(append(c.SendsTo, c.Receives...), func(e string) bool {
		return strings.EqualFold(e, b.Entity)
	})
}

func entity(r *http.Request) string { return r.URL.Query().Get("entity") }

func number[T int | int64](r *http.Request, name string, to *T) error {
	text := r.URL.Query().Get(name)
	if text == "" {
		return nil
	}

	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errBody, name, err)
	}

	*to = T(n)

	return nil
}

func get(mux *http.ServeMux, path string, f func(*http.Request) (any, error)) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		answer(w, v, err)
	})
}

func post[T any](mux *http.ServeMux, path string, f func(T) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var body T

		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		d.DisallowUnknownFields()

		if err := d.Decode(&body); err != nil {
			answer(w, nil, fmt.Errorf("%w: %w", errBody, err))

			return
		}

		v, err := f(body)
		answer(w, v, err)
	})
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")

	switch {
	case err == nil:
	case errors.Is(err, sbemu.ErrNotFound), errors.Is(err, sbemu.ErrNotLocked):
		w.WriteHeader(http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}

	if err != nil {
		v = map[string]string{"error": err.Error()}
	}

	_ = json.NewEncoder(w).Encode(v)
}
