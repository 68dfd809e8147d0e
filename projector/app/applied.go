package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/query"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// liveProjection is a projection as those see it who ask whether it has an event.
type liveProjection struct {
	name string
	// unit is the live generation and its collection; building says that there is none.
	unit     model.Unit
	building bool
}

// liveProjections are those of the catalog.
func liveProjections(entries map[string]*generation.Entry) []liveProjection {
	var live []liveProjection
	for name, e := range entries {
		switch {
		case e.RetiredAt != nil:
		case e.Live == nil:
			live = append(live, liveProjection{name: name, building: true})
		default:
			live = append(live, liveProjection{name: name, unit: model.Unit{Projection: name, Generation: e.Live.Generation, Collection: e.Live.Collection}})
		}
	}
	return live
}

// applied is the source of the answers of GET /applied.
type applied struct {
	// live gives the projections as they are now.
	live   func() []liveProjection
	stores *stores
	parked *park.Store
	events *eventstore.Reader
}

var _ query.Source = (*applied)(nil)

func (a *applied) Projections() []string {
	var names []string
	for _, p := range a.live() {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// lookTimeout bounds one look.
const lookTimeout = 10 * time.Second

func (a *applied) Look(ctx context.Context, keys []query.Key) ([]query.Status, error) {
	ctx, cancel := mongox.Timeout(ctx, lookTimeout)
	defer cancel()
	live := make(map[string]liveProjection)
	for _, p := range a.live() {
		live[p.name] = p
	}
	statuses := make([]query.Status, len(keys))
	var units []model.Unit
	var places []int
	for i, key := range keys {
		p, ok := live[key.Projection]
		if !ok || p.building {
			// A projection that has just been dropped will not have the event either.
			statuses[i].Building = true
			continue
		}
		unit := p.unit
		unit.AggregateID = key.AggregateID
		units, places = append(units, unit), append(places, i)
	}
	if len(units) == 0 {
		return statuses, nil
	}
	// The parked list first: a watermark that is read later may be higher, which makes a
	// marker count less, never more.
	parked, err := a.parked.Statuses(ctx, units)
	if err != nil {
		return nil, mongox.Explain(ctx, err)
	}
	watermarks, err := readmodel.Watermarks(ctx, a.stores.readModels, units)
	if err != nil {
		return nil, mongox.Explain(ctx, err)
	}
	for j, i := range places {
		statuses[i].Watermark = watermarks[j]
		if p := parked[j]; p != (park.Status{}) {
			statuses[i].Parked = &query.Parked{EventID: p.EventID, Reason: p.Reason, Resumes: p.Resumes}
		}
	}
	return statuses, nil
}

func (a *applied) Head(ctx context.Context, aggregateID string) (int64, error) {
	return a.events.Newest(ctx, aggregateID)
}

const (
	// readHeaderTimeout and idleTimeout bound what a connection without a request costs.
	readHeaderTimeout, idleTimeout = 5 * time.Second, time.Minute
	// maxHeaderBytes bounds a request: its line holds at most a hundred pairs.
	maxHeaderBytes = 256 << 10
	// appliedStop bounds the end of the requests after the poller has answered them.
	appliedStop = time.Second
)

// serveApplied serves GET /applied in group until ctx ends, if an address is configured.
func (p *Projector) serveApplied(ctx context.Context, group *errgroup.Group, source query.Source) error {
	address := p.config.Process.QueryAddress
	if address == "" {
		return nil
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("PENSTOCK_QUERY_ADDRESS: %w", err)
	}
	poller := query.NewPoller(query.PollerOptions{Source: source, Logger: p.logger})
	server := &http.Server{
		Handler:           query.NewHandler(poller, p.registry),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
	p.logger.Info().Stringer("address", listener.Addr()).Msg("answering GET /applied")
	group.Go(func() error { return poller.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve PENSTOCK_QUERY_ADDRESS: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), appliedStop)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // Cut off what did not finish.
		}
		return nil
	})
	return nil
}
