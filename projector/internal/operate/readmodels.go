package operate

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
	"github.com/penstock-cdc/penstock/projector/internal/verify"
)

// withReadModels calls do while the goroutines that read and write read models run.
func (e *Environment) withReadModels(ctx context.Context, s *stored, do func(store verify.Store) error) (err error) {
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
