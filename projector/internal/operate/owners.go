package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// OwnedSubscription is the kind of the name that binds a subscription, and ownedReadModel that of
// a collection. Its owner has the field ownedProjection.
const (
	OwnedSubscription = "subscription"
	ownedReadModel    = "read model"
	ownedProjection   = "projection"
)

// ownedFields is the kind of the name that binds the names of the fields that an event may lack.
// With other names a fold of the same events gives other read models, and nothing else shows that:
// an event without a payload keeps the contract. With another name of a field that an event must
// have, nothing is folded. So that one needs no owner, and a first start with a wrong name takes
// none. Another representation of UUIDs gives read models with other ids, and another first event
// id another first event.
const ownedFields = "optional fields of the events of"

func fieldsOf(c *config.Config) []catalog.OwnerField {
	return []catalog.OwnerField{
		{Name: "PENSTOCK_FIELD_AGGREGATE_TYPE", Value: c.Fields.AggregateType},
		{Name: "PENSTOCK_FIELD_TIMESTAMP", Value: c.Fields.Timestamp},
		{Name: "PENSTOCK_FIELD_PAYLOAD", Value: c.Fields.Payload},
		{Name: "PENSTOCK_FIELD_METADATA", Value: c.Fields.Metadata},
		{Name: "PENSTOCK_FIRST_EVENT_ID", Value: strconv.FormatInt(c.Fields.FirstEventID, 10)},
		{Name: "uuidRepresentation", Value: c.MongoDB.UUIDRepresentation()},
	}
}

// checkFields fails if the projectors of a pipeline read the events by other settings than this
// command. A repair would fold all read models wrongly.
func (s *stored) checkFields(ctx context.Context, pipeline string) error {
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	name := catalog.OwnedName{Kind: ownedFields, Name: pipeline, Owner: fieldsOf(&s.environment.Config)}
	_, err := catalog.CheckNames(ctx, []catalog.Place{{Owners: catalog.Owners(s.ReadModels), Names: []catalog.OwnedName{name}}})
	if conflict, ok := errors.AsType[*catalog.ConflictError](err); ok {
		return fmt.Errorf("the projectors read the events by other settings: %v; set the variables as recorded; if the stored events need the present settings, start the projectors with those first: their error names the record to release", conflict.Conflicts[0])
	}
	return mongox.Explain(ctx, err)
}

// Owned returns the names that only one pipeline may use, by the databases in which they
// could collide. A projection's name is part of its watermarks, beside the read models, and of
// its parked aggregates, in the state. Two pipelines that drain one subscription would each
// get some of its events, so a subscription belongs to one database of read models.
func Owned(ctx context.Context, c *config.Config, projections []*projection.Projection, s *config.Stores) ([]catalog.Place, error) {
	cluster, err := mongox.ClusterOf(ctx, s.ReadModels.Client())
	if err != nil {
		return nil, err
	}
	pipeline := c.Pipeline()
	owner := []catalog.OwnerField{
		{Name: "Service Bus namespace", Value: pipeline.Namespace},
		{Name: "topic", Value: pipeline.Topic},
		{Name: "subscription", Value: pipeline.Subscription},
		{Name: "event store", Value: pipeline.EventStore},
	}
	var declared, collections []catalog.OwnedName
	for _, projection := range projections {
		declared = append(declared, catalog.OwnedName{Kind: "projection", Name: projection.Name(), Owner: owner})
		collections = append(collections, catalog.OwnedName{
			Kind: ownedReadModel, Name: projection.Collection(),
			Owner: slices.Concat(owner, []catalog.OwnerField{{Name: ownedProjection, Value: projection.Name()}}),
		})
	}
	collections = append(collections, catalog.OwnedName{Kind: ownedFields, Name: pipeline.String(), Owner: fieldsOf(c)})
	drained := catalog.OwnedName{Kind: OwnedSubscription, Name: pipeline.Drained(), Owner: []catalog.OwnerField{
		{Name: "read models' cluster", Value: cluster.Name},
		{Name: "read models' database", Value: c.MongoDB.ReadModels().Database},
	}}
	if c.MongoDB.State().SameDatabase(c.MongoDB.ReadModels()) {
		return []catalog.Place{{Owners: catalog.Owners(s.ReadModels), Names: slices.Concat(collections, declared, []catalog.OwnedName{drained})}}, nil
	}
	return []catalog.Place{
		{Owners: catalog.Owners(s.ReadModels), Names: slices.Concat(collections, declared)},
		{Owners: catalog.Owners(s.State), Names: slices.Concat(declared, []catalog.OwnedName{drained})},
	}, nil
}

// ExplainOwner adds the remedies to an ownership conflict.
func ExplainOwner(err error) error {
	conflict, ok := errors.AsType[*catalog.ConflictError](err)
	if !ok {
		return err
	}
	release := make([]string, len(conflict.Conflicts))
	for i, c := range conflict.Conflicts {
		release[i] = fmt.Sprintf("%q", c.ID())
	}
	command := "projector owners release --why TEXT " + strings.Join(release, " ")
	if c := conflict.Conflicts[0]; c.Kind == ownedFields && len(conflict.Conflicts) == 1 {
		return fmt.Errorf("read models are folded by other settings of the events' fields: %v; if the stored events need the present settings, release the record in collection %s and rebuild the projections: %s; otherwise set the variables as recorded", c, catalog.OwnersName, command)
	}
	return fmt.Errorf("%w; give the projections other names and collections, or this pipeline other databases (PENSTOCK_READMODELS_DATABASE, PENSTOCK_STATE_DATABASE) or a subscription of its own; a collection that another projection has left is free after \"projector projections drop\"; to take the names over with their data instead, stop the other pipeline permanently and release the records in collection %s: %s", err, catalog.OwnersName, command)
}

// ownersCommands are the commands about the names that one pipeline owns.
type ownersCommands struct {
	Release ownersReleaseCommand `cmd:"" help:"Release a name, such as \"projection users\", so that another pipeline or projection can own it. Its data stay. Stop the projectors that use the name first."`
}

type ownersReleaseCommand struct {
	Names      []string `arg:"" name:"name" help:"The records to release, as the refusal of a projector names them, each in quotes: its kind and its name."`
	cli.Change `set:"why=required"`
}

// Validate checks the flags. kong calls it.
func (c *ownersReleaseCommand) Validate() error {
	return c.RequireWhy("say why the names are released; the reason is kept in the audit")
}

func (c *ownersReleaseCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	what := make([]string, len(c.Names))
	for i, name := range c.Names {
		for _, db := range []*mongo.Database{s.ReadModels, s.State} {
			owner, err := catalog.OwnerOf(ctx, catalog.Owners(db), catalog.ParseName(name))
			if err != nil {
				return err
			}
			if owner != nil {
				what[i] = fmt.Sprintf("%s, which %s owns", name, owner)
			}
		}
		if what[i] == "" {
			return fmt.Errorf("no pipeline owns %q: use the kind and the name in the projector's error, such as \"projection users\"", name)
		}
	}
	return s.change(ctx, c.Change, "release "+strings.Join(what, "; "), func(ctx context.Context) (map[string]int64, error) {
		for _, name := range c.Names {
			err := errors.Join(
				catalog.ReleaseName(ctx, catalog.Owners(s.ReadModels), catalog.ParseName(name)),
				catalog.ReleaseName(ctx, catalog.Owners(s.State), catalog.ParseName(name)))
			if err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(e.stdout, "released %s; the next projector that declares such a name owns it\n", strings.Join(c.Names, ", "))
		return map[string]int64{"names": int64(len(c.Names))}, nil
	})
}
