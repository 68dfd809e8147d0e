package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// checkReadModels fails if the projectors read the events by other names, or if the read models
// of a projection that has data are not in the configured database. A verification would report every read
// model as missing, and a repair would write all of them into the wrong database. A projector
// records the owner of a collection there before it writes the catalog.
func (s *stored) checkReadModels(ctx context.Context, e *catalog.Entry) error {
	if err := s.checkFields(ctx, e.Pipeline); err != nil {
		return err
	}
	collection := e.Definition().Collection
	owner, err := s.ownerOf(ctx, ownedReadModel, collection)
	if err != nil {
		return err
	}
	if owner == e.Pipeline {
		return nil
	}
	return fmt.Errorf("%w: projection %s of the pipeline %s has its read models in collection %s, which %s owns in database %s: set PENSTOCK_READMODELS_DATABASE to the database of the projectors",
		errOtherReadModels, e.Name, e.Pipeline, collection, cmp.Or(owner, "no pipeline"), s.ReadModels.Name())
}

// errOtherReadModels says that the configured database is not that of the read models.
var errOtherReadModels = errors.New("wrong database of read models")

// ownerOf returns the pipeline that owns a name in the database of the read models; empty if there
// is none.
func (s *stored) ownerOf(ctx context.Context, kind, name string) (string, error) {
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	fields, err := catalog.OwnerOf(ctx, catalog.Owners(s.ReadModels), catalog.OwnedName{Kind: kind, Name: name})
	var parts []string
	for _, field := range fields {
		if field.Name != ownedProjection {
			parts = append(parts, field.Value)
		}
	}
	return strings.Join(parts, "/"), mongox.Explain(ctx, err)
}

// withReadModels calls do while the goroutines that read and write read models run.
func (e *Environment) withReadModels(ctx context.Context, s *stored, do func(store history.Store) error) (err error) {
	loader := readmodel.NewLoader(s.ReadModels, readmodel.LoaderOptions{MaxBytes: e.Config.Projections.LoadBytes})
	writer := readmodel.NewWriter(s.ReadModels, readmodel.WriterOptions{Window: e.Config.Projections.FlushInterval})
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, background := errgroup.WithContext(background)
	group.Go(func() error { return loader.Run(background) })
	group.Go(func() error { return writer.Run(background) })
	defer func() {
		stop()
		if e := group.Wait(); e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}()
	return do(struct {
		*readmodel.Loader
		*readmodel.Writer
	}{loader, writer})
}
