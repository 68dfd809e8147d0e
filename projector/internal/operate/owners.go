package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/ownership"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// OwnedSubscription is the kind of the name that binds a subscription.
const OwnedSubscription = "subscription"

// ownedFields is the kind of the name that binds the names of the fields that an event may lack.
// With other names a fold of the same events gives other read models, and nothing else shows that:
// an event without a payload keeps the contract. With another name of a field that an event must
// have, nothing is folded. So that one needs no owner, and a first start with a wrong name takes
// none.
const ownedFields = "optional fields of the events of"

func fieldsOf(c *config.Config) []ownership.Field {
	return []ownership.Field{
		{Name: "PENSTOCK_FIELD_AGGREGATE_TYPE", Value: c.Fields.AggregateType},
		{Name: "PENSTOCK_FIELD_TIMESTAMP", Value: c.Fields.Timestamp},
		{Name: "PENSTOCK_FIELD_PAYLOAD", Value: c.Fields.Payload},
		{Name: "PENSTOCK_FIELD_METADATA", Value: c.Fields.Metadata},
	}
}

// checkFields fails if the projectors of a pipeline read the events by other names of fields than
// this command. A repair would fold all read models wrongly.
func (s *stored) checkFields(ctx context.Context, pipeline string) error {
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	name := ownership.Name{Kind: ownedFields, Name: pipeline, Owner: fieldsOf(&s.environment.Config)}
	_, err := ownership.Check(ctx, []ownership.Place{{Owners: ownership.Owners(s.ReadModels), Names: []ownership.Name{name}}}, "")
	if conflict, ok := errors.AsType[*ownership.ConflictError](err); ok {
		return fmt.Errorf("the projectors read the events by other names of fields: %v; set the variables as recorded", conflict.Conflicts[0])
	}
	return mongox.Explain(ctx, err)
}

// Owned returns the names that only one pipeline may use, by the databases in which they
// could collide. A projection's name is part of its watermarks, beside the read models, and of
// its parked aggregates, in the state. Two pipelines that drain one subscription would each
// get some of its events, so a subscription belongs to one database of read models.
func Owned(ctx context.Context, c *config.Config, projections []*projection.Projection, s *config.Stores) ([]ownership.Place, error) {
	cluster, err := mongox.ClusterOf(ctx, s.ReadModels.Client())
	if err != nil {
		return nil, err
	}
	pipeline := c.Pipeline()
	owner := []ownership.Field{
		{Name: "Service Bus namespace", Value: pipeline.Namespace},
		{Name: "topic", Value: pipeline.Topic},
		{Name: "subscription", Value: pipeline.Subscription},
		{Name: "event store", Value: pipeline.EventStore},
	}
	var declared, collections []ownership.Name
	for _, projection := range projections {
		declared = append(declared, ownership.Name{Kind: "projection", Name: projection.Name(), Owner: owner})
		collections = append(collections, ownership.Name{Kind: "read model", Name: projection.Collection(), Owner: owner})
	}
	collections = append(collections, ownership.Name{Kind: ownedFields, Name: pipeline.String(), Owner: fieldsOf(c)})
	drained := ownership.Name{Kind: OwnedSubscription, Name: pipeline.Drained(), Owner: []ownership.Field{
		{Name: "read models' cluster", Value: cluster.Name},
		{Name: "read models' database", Value: c.MongoDB.ReadModels().Database},
	}}
	if c.MongoDB.State().SameDatabase(c.MongoDB.ReadModels()) {
		return []ownership.Place{{Owners: ownership.Owners(s.ReadModels), Names: slices.Concat(collections, declared, []ownership.Name{drained})}}, nil
	}
	return []ownership.Place{
		{Owners: ownership.Owners(s.ReadModels), Names: slices.Concat(collections, declared)},
		{Owners: ownership.Owners(s.State), Names: slices.Concat(declared, []ownership.Name{drained})},
	}, nil
}

// ExplainOwner adds the remedies to an ownership conflict.
func ExplainOwner(err error) error {
	conflict, ok := errors.AsType[*ownership.ConflictError](err)
	if !ok {
		return err
	}
	if c := conflict.Conflicts[0]; c.Kind == ownedFields && len(conflict.Conflicts) == 1 {
		return fmt.Errorf("read models are folded by other names of the events' fields: %v; set the variables as recorded, because the read models would become different ones; if the stored events have new names, set PENSTOCK_ADOPT_READ_MODELS=%s, and rebuild the projections", c, conflict.Adoption)
	}
	return fmt.Errorf("%w; give the projections other names and collections, or this pipeline other databases (PENSTOCK_READMODELS_DATABASE, PENSTOCK_STATE_DATABASE) or a subscription of its own; to take the names over with their data instead, stop the other pipeline permanently and set PENSTOCK_ADOPT_READ_MODELS=%s", err, conflict.Adoption)
}
