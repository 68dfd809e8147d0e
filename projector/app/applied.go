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
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/query"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// applied provides the data for the answers to GET /applied.
type applied struct {
	// entries returns those of the catalog.
	entries func() map[string]*catalog.Entry
	stores  *config.Stores
	parked  *park.Store
	events  *eventstore.Reader
	// fromZero is set if event ids begin at 0.
	fromZero bool
}

var _ query.Source = (*applied)(nil)

func (a *applied) Projections() []string {
	var names []string
	for name, e := range a.entries() {
		if e.RetiredAt == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *applied) LookUp(ctx context.Context, keys []query.Key) ([]query.Status, error) {
	entries := a.entries()
	statuses := make([]query.Status, len(keys))
	var units []model.Unit
	var places []int
	scopes := make(map[string]projection.Scope) // reading that of a large definition takes a millisecond
	for i, key := range keys {
		e := entries[key.Projection]
		if e == nil || e.RetiredAt != nil || e.Live == nil {
			// A projection that was dropped a moment ago will not get the event either.
			statuses[i].Building = true
			continue
		}
		scope, known := scopes[key.Projection]
		if !known {
			var err error
			if scope, err = projection.ScopeOf(e.Live.Text); err != nil {
				return nil, err
			}
			scopes[key.Projection] = scope
		}
		units = append(units, model.Unit{Projection: key.Projection, Generation: e.Live.Generation, Collection: e.Live.Collection, AggregateID: key.AggregateID, Parts: scope.View, FromZero: a.fromZero})
		places = append(places, i)
	}
	if len(units) == 0 {
		return statuses, nil
	}
	// Read the parked list before the watermarks. A watermark can only rise in between,
	// which can make a marker obsolete but never adds one.
	parked, err := a.parked.Parked(ctx, units)
	if err != nil {
		return nil, mongox.Explain(ctx, err)
	}
	watermarks, err := readmodel.Watermarks(ctx, a.stores.ReadModels, units)
	if err != nil {
		return nil, mongox.Explain(ctx, err)
	}
	for j, i := range places {
		statuses[i].Watermark = watermarks[j]
		if watermarks[j] == model.Erased {
			statuses[i].Watermark = units[j].NoEvent() // The read model has no event of the aggregate.
		}
		if p := parked[j]; p.Reason != "" {
			statuses[i].Parked = &query.Parked{EventID: p.EventID, Reason: p.Reason, Resumes: p.Resumes}
		}
	}
	return statuses, nil
}

func (a *applied) Head(ctx context.Context, aggregateID string) (int64, error) {
	return a.events.Newest(ctx, aggregateID)
}

const (
	// appliedConnections are more than the requests that may wait, so that a request beyond
	// them is answered too.
	appliedConnections = query.MaxWaits + 200
	// appliedTimeout is longer than a request may wait.
	appliedTimeout = query.MaxTimeout + 30*time.Second
	// appliedStop bounds ending the requests after the poller has answered them.
	appliedStop = time.Second
)

// serveApplied serves GET /applied in group until ctx ends, if an address is configured.
func (p *Projector) serveApplied(ctx context.Context, group *errgroup.Group, source query.Source) error {
	listener, address := p.queries, p.config.Process.QueryAddress
	if listener == nil && address == "" {
		return nil
	}
	if listener == nil {
		var listen net.ListenConfig
		var err error
		if listener, err = listen.Listen(ctx, "tcp", address); err != nil {
			return fmt.Errorf("PENSTOCK_QUERY_ADDRESS: %w", err)
		}
	}
	poller := query.NewPoller(source, p.logger)
	server := health.NewHTTPServer(health.HTTPOptions{
		Handler:      query.NewHandler(poller, p.config.Fields.FirstEventID, p.registry),
		Connections:  appliedConnections,
		WriteTimeout: appliedTimeout,
	})
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
			_ = server.Close() // Cut off the requests that have not finished.
		}
		return nil
	})
	return nil
}
