package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/mongox"
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
	pipeline := p.config.Pipeline()
	owner := []ownership.Field{
		{Name: "Service Bus namespace", Value: pipeline.Namespace},
		{Name: "topic", Value: pipeline.Topic},
		{Name: "subscription", Value: pipeline.Subscription},
		{Name: "event store", Value: pipeline.EventStore},
	}
	var projections, collections []ownership.Name
	for _, projection := range p.projections {
		projections = append(projections, ownership.Name{Kind: "projection", Name: projection.Name(), Owner: owner})
		collections = append(collections, ownership.Name{Kind: "read model", Name: projection.Collection(), Owner: owner})
	}
	drained := ownership.Name{Kind: "subscription", Name: pipeline.Drained(), Owner: []ownership.Field{
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

// explainOwner adds the remedies to an ownership conflict.
func explainOwner(err error) error {
	conflict, ok := errors.AsType[*ownership.ConflictError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w; give the projections other names and collections, or this pipeline other databases (PENSTOCK_READMODELS_DATABASE, PENSTOCK_STATE_DATABASE) or a subscription of its own; to take the names over with their data instead, stop the other pipeline permanently and set PENSTOCK_ADOPT_READ_MODELS=%s", err, conflict.Adoption)
}
