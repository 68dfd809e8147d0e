package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/ownership"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

// own makes this pipeline the owner of the names that only one pipeline may use. It fails
// if another pipeline owns one of them.
func (p *Projector) own(ctx context.Context, s *stores.Stores) error {
	var refusal error
	err := p.repeat(ctx, "bind the projections to this pipeline", p.config.MongoDB.ReadModels(), func(ctx context.Context) error {
		cluster, err := mongox.ClusterOf(ctx, s.ReadModels.Client())
		if err != nil {
			return err
		}
		err = ownership.Take(ctx, p.places(s, cluster), p.config.Projections.Adopt, p.logger)
		if errors.Is(err, ownership.ErrOwned) {
			refusal = explainOwner(err)
			return nil
		}
		return err
	})
	return errors.Join(refusal, err)
}

// places returns the names by the databases in which they could collide. A projection's
// name is part of its watermarks, beside the read models, and of its parked aggregates, in
// the state. Two pipelines that drain one subscription would each get some of its events,
// so a subscription belongs to one database of read models.
func (p *Projector) places(s *stores.Stores, cluster mongox.Cluster) []ownership.Place {
	pipeline := pipelineOf(p.config)
	var projections, collections []ownership.Name
	for _, projection := range p.projections {
		projections = append(projections, ownership.Name{Kind: "projection", Name: projection.Name(), Owner: pipeline})
		collections = append(collections, ownership.Name{Kind: "read model", Name: projection.Collection(), Owner: pipeline})
	}
	drained := ownership.Name{Kind: "subscription", Name: pipeline[0].Value + "/" + pipeline[1].Value + "/" + pipeline[2].Value, Owner: []ownership.Field{
		{Name: "read models' cluster", Value: cluster.Name},
		{Name: "read models' database", Value: p.config.MongoDB.ReadModels().Database},
	}}
	if p.config.MongoDB.State().SameDatabase(p.config.MongoDB.ReadModels()) {
		return []ownership.Place{{Owners: ownership.Owners(s.ReadModels), Names: slices.Concat(collections, projections, []ownership.Name{drained})}}
	}
	return []ownership.Place{
		{Owners: ownership.Owners(s.ReadModels), Names: slices.Concat(collections, projections)},
		{Owners: ownership.Owners(s.State), Names: slices.Concat(projections, []ownership.Name{drained})},
	}
}

// pipelineOf returns the fields that identify a pipeline.
func pipelineOf(c config.Config) []ownership.Field {
	bus := c.ServiceBus
	return []ownership.Field{
		{Name: "Service Bus namespace", Value: strings.ToLower(bus.Host())},
		{Name: "topic", Value: strings.ToLower(bus.Topic)},
		{Name: "subscription", Value: strings.ToLower(bus.Subscription)},
		{Name: "event store", Value: eventStoreName(c)},
	}
}

// eventStoreName is the event store's part of a pipeline's name.
func eventStoreName(c config.Config) string {
	events := c.MongoDB.Events()
	return events.Database + "." + events.Collection
}

// pipelineID identifies the pipeline by one text, for the catalog and the registry.
func pipelineID(c config.Config) string {
	var values []string
	for _, f := range pipelineOf(c) {
		values = append(values, f.Value)
	}
	return strings.Join(values, "/")
}

// explainOwner adds the remedies to an ownership conflict.
func explainOwner(err error) error {
	conflict, ok := errors.AsType[*ownership.ConflictError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w; give the projections other names and collections, or this pipeline other databases (PENSTOCK_READMODELS_DATABASE, PENSTOCK_STATE_DATABASE) or a subscription of its own; to take the names over with their data instead, stop the other pipeline permanently and set PENSTOCK_ADOPT_READ_MODELS=%s", err, conflict.Adoption)
}
