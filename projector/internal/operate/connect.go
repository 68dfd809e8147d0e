package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// stored is what commands read and change: the databases, and what is in them.
type stored struct {
	*config.Stores
	environment *Environment
	catalog     *catalog.Catalog
	parked      *park.Store
	jobs        *job.Store
	// omitted reports the entries of the catalog that cannot be read.
	omitted mongox.Omissions
}

// connect opens the databases and checks that MongoDB answers. Unlike the service it fails at
// once if a database does not answer. The caller closes them.
func (e *Environment) connect(ctx context.Context) (*stored, error) {
	s, err := config.OpenStores(e.Config.MongoDB, nil, e.Logger)
	if err != nil {
		return nil, err
	}
	for _, client := range s.Needed {
		if err := mongox.Reach(ctx, client.Client); err != nil {
			s.Close(ctx)
			return nil, fmt.Errorf("reach MongoDB at %s (%s): %w", client.Store, client.What, err)
		}
	}
	return &stored{
		Stores: s, environment: e,
		catalog: catalog.NewCatalog(s.State.Collection(catalog.CatalogName), ""),
		parked:  park.NewStore(park.In(s.State), park.Options{Logger: e.Logger}),
		jobs:    job.NewStore(s.State, job.Options{Logger: e.Logger}),
	}, nil
}

// change asks for confirmation of what, such as "retry 12 parked aggregates", calls do, and
// records the change in the audit. do returns the numbers of its result.
func (s *stored) change(ctx context.Context, c cli.Change, what string, do func(ctx context.Context) (map[string]int64, error)) error {
	e := s.environment
	change := audit.Change{Flags: c, Command: e.Path, What: what, In: e.stdin, Out: e.stderr}
	return audit.NewStore(audit.In(s.State)).Confirmed(ctx, change, do)
}

// entries reads the catalog. For an unreadable entry of another event store it returns only the
// name and the pipeline, so that commands leave its parked aggregates alone. It fails if an
// entry of the configured event store cannot be read.
func (s *stored) entries(ctx context.Context) (map[string]*catalog.Entry, error) {
	found, err := s.allEntries(ctx)
	unreadable, ok := errors.AsType[*mongox.UnreadableError](err)
	if !ok {
		return found, err
	}
	for _, record := range unreadable.Records {
		pipeline, ok := record.Lookup("pipeline").StringValueOK()
		if !ok || s.environment.Config.Pipeline().SameEvents(pipeline) {
			return nil, err
		}
		name, ok := record.Lookup("_id").StringValueOK()
		if !ok {
			name = record.Lookup("_id").String()
		}
		found[name] = &catalog.Entry{Name: name, Pipeline: pipeline, Unreadable: err}
	}
	return found, s.omitted.Report(err, s.environment.Logger)
}

// namesOf returns the sorted names of the entries for which keep is true.
func namesOf(entries map[string]*catalog.Entry, keep func(*catalog.Entry) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(entries)), func(name string) bool { return !keep(entries[name]) })
}

// allEntries reads the catalog. It fails if an entry cannot be read, also one of another event
// store.
func (s *stored) allEntries(ctx context.Context) (map[string]*catalog.Entry, error) {
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	found, err := s.catalog.List(ctx)
	return found, mongox.Explain(ctx, err)
}

// alive returns the running projectors of a pipeline.
func (s *stored) alive(ctx context.Context, pipeline string) ([]catalog.Registration, error) {
	return catalog.NewRegistry(s.State.Collection(catalog.RegistryName), catalog.Registration{Pipeline: pipeline}).Alive(ctx)
}

// events makes the reader of the event store. It fails if event ids begin elsewhere than configured.
func (s *stored) events(ctx context.Context) (*eventstore.Reader, error) {
	open := func() *eventstore.Reader {
		return eventstore.NewReader(s.Events, s.environment.Config.EventFields(), s.environment.Logger)
	}
	// The check restricts its reader to one type of ids; commands also read others.
	if err := open().CheckFirstID(ctx); err != nil {
		return nil, err
	}
	return open(), nil
}
