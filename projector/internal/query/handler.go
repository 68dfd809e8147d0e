package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
)

const (
	// headTimeout bounds the lookup of aggregates' heads, which an answer after a timeout
	// includes.
	headTimeout = time.Second
	// maxHeads bounds the concurrent lookups of heads.
	maxHeads = 16
)

// Answer is the body of a response with status 200.
type Answer struct {
	// Result is [Applied] if all pairs are applied, [ParkedResult] if one of them is
	// parked, and otherwise [Timeout].
	Result Result       `json:"result"`
	Pairs  []PairAnswer `json:"pairs"`
}

// PairAnswer is the answer for one pair.
type PairAnswer struct {
	Projection  string `json:"projection"`
	AggregateID string `json:"aggregateId"`
	EventID     int64  `json:"eventId"`
	Result      Result `json:"result"`
	// Watermark is the last event in the read model.
	Watermark int64 `json:"watermark"`
	// Head is the last event of the aggregate in the event store. It is set after a
	// timeout if the event store answered.
	Head *int64 `json:"head,omitempty"`
	// Building is set while the first generation of the projection is being built.
	Building bool    `json:"building,omitempty"`
	Parked   *Parked `json:"parked,omitempty"`
}

// failureAnswer is the body of every other response.
type failureAnswer struct {
	Error string `json:"error"`
}

// Handler answers requests. Make it with [NewHandler].
type Handler struct {
	poller *Poller
	// firstEvent is the id of the first event of each aggregate.
	firstEvent int64
	// heads has a token for each running lookup of a head.
	heads    chan struct{}
	requests *prometheus.CounterVec
}

// The results of requests without an [Answer], as values of a metric's label.
const (
	resultRefused     = "refused"
	resultUnavailable = "unavailable"
)

// NewHandler makes a handler of GET /applied. The poller must be running. firstEvent is the id of
// the first event of each aggregate. registerer may be nil.
func NewHandler(p *Poller, firstEvent int64, registerer prometheus.Registerer) http.Handler {
	h := &Handler{
		poller: p, firstEvent: firstEvent, heads: make(chan struct{}, maxHeads),
		requests: obs.CounterVec(registerer, "penstock_projector_applied_requests_total",
			"Requests to /applied, which ask whether read models have an event, by result: applied, parked, timeout, refused (the request is wrong), unavailable (too many requests wait, MongoDB does not answer, or the process starts or stops).",
			"result", string(Applied), string(ParkedResult), string(Timeout), resultRefused, resultUnavailable),
	}
	obs.GaugeFunc(registerer, "penstock_projector_applied_waiting_pairs",
		"Events that requests to /applied wait for now, counted once for each read model.", func() float64 { return float64(p.Waiting()) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /applied", h.applied)
	return mux
}

func (h *Handler) applied(w http.ResponseWriter, r *http.Request) {
	asked, err := parseRequest(r.URL.RawQuery, h.firstEvent)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, resultRefused, err)
		return
	}
	names := h.poller.source.Projections()
	if len(names) == 0 {
		h.refuse(w, http.StatusServiceUnavailable, resultUnavailable, errors.New("the process has read no projection of the catalog yet; ask another one"))
		return
	}
	for _, pair := range asked.pairs {
		if !slices.Contains(names, pair.Projection) {
			h.refuse(w, http.StatusNotFound, resultRefused, fmt.Errorf("there is no projection %q: ask for one of %s", pair.Projection, strings.Join(names, ", ")))
			return
		}
	}
	statuses, err := h.poller.Await(r.Context(), asked.pairs, asked.timeout)
	if r.Context().Err() != nil {
		return // The client has gone.
	}
	if err != nil {
		if !errors.Is(err, errBusy) && !errors.Is(err, errStopping) {
			err = fmt.Errorf("the read models cannot be read: %w", err)
		}
		h.refuse(w, http.StatusServiceUnavailable, resultUnavailable, err)
		return
	}
	answer := h.answer(r.Context(), asked.pairs, statuses)
	h.requests.WithLabelValues(string(answer.Result)).Inc()
	reply(w, http.StatusOK, answer)
}

// answer makes the answer for pairs with the given statuses.
func (h *Handler) answer(ctx context.Context, pairs []Pair, statuses []Status) Answer {
	a := Answer{Result: result(pairs, statuses), Pairs: make([]PairAnswer, len(pairs))}
	over := a.Result == Pending
	if over {
		a.Result = Timeout
	}
	ctx, cancel := mongox.Timeout(ctx, headTimeout)
	defer cancel()
	for i, pair := range pairs {
		s := statuses[i]
		one := PairAnswer{
			Projection: pair.Projection, AggregateID: pair.AggregateID, EventID: pair.EventID,
			Result: s.result(pair.EventID), Watermark: s.Watermark, Building: s.Building,
		}
		switch {
		case one.Result == ParkedResult:
			one.Parked = s.Parked
		case one.Result == Pending && over:
			one.Result = Timeout
			one.Head = h.head(ctx, pair.AggregateID)
		}
		a.Pairs[i] = one
	}
	return a
}

// head returns the last event of an aggregate; nil if the lookup fails or ctx ends.
func (h *Handler) head(ctx context.Context, aggregateID string) *int64 {
	select {
	case h.heads <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-h.heads }()
	head, err := h.poller.source.Head(ctx, aggregateID)
	if err != nil {
		return nil
	}
	return &head
}

func (h *Handler) refuse(w http.ResponseWriter, status int, result string, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	h.requests.WithLabelValues(result).Inc()
	reply(w, status, failureAnswer{Error: err.Error()})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // A client that has gone away needs no answer.
}
