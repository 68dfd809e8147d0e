package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// diffCommand shows what changed definitions would do to real aggregates.
type diffCommand struct {
	cli.Output
	Files  []string `arg:"" name:"file" help:"The new file or folder of projections; or the old one and the new one. With one, the new one is compared with the live definitions of the catalog."`
	Sample int      `name:"sample" default:"1000" placeholder:"N" help:"How many aggregates are folded by both definitions, 1 to 100000."`
	From   string   `name:"from" placeholder:"FILE" help:"Read the events from this file instead of the event store: one event per line as Extended JSON, in the format of mongoexport, also compressed by gzip. The first aggregates of the file are the sample."`
}

// maxDiffSample bounds the aggregates of a sample.
const maxDiffSample = 100_000

func (c *diffCommand) needs() config.Part {
	if c.From != "" && len(c.Files) == 2 {
		return config.PartFields | config.PartHistory
	}
	return config.PartMongoDB | config.PartFields | config.PartHistory
}

// Validate checks the flags. kong calls it.
func (c *diffCommand) Validate() error {
	var p cli.Problems
	// Parsing reports that no file is named.
	p.Require(len(c.Files) <= 2, "<file> names %d files: name the new one, or the old one and the new one", len(c.Files))
	p.Require(c.Sample >= 1 && c.Sample <= maxDiffSample, "--sample is %d: use 1 to %d", c.Sample, maxDiffSample)
	return errors.Join(p...)
}

// difference is the result of the command.
type difference struct {
	Projections []*comparison `json:"projections"`
	// Aggregates and Events are the size of the sample. Unreadable is the number of events
	// in it that break the event contract.
	Aggregates int64 `json:"aggregates"`
	Events     int64 `json:"events"`
	Unreadable int64 `json:"unreadable"`
	// Rollout estimates the reads of a rollout.
	Rollout rolloutCost `json:"rollout"`
}

// rolloutCost estimates how much the builds of a rollout read.
type rolloutCost struct {
	// Builds is how many projections are built from the event store, which holds
	// StoreEvents events. Reads is how many events the builds and their verifications read.
	Builds      int   `json:"builds"`
	StoreEvents int64 `json:"storeEvents"`
	Reads       int64 `json:"reads"`
	// Rate is PENSTOCK_REFOLD_RATE, 0 for no limit. Seconds is the time of one pod at that
	// rate; pods share the work.
	Rate    int   `json:"rate"`
	Seconds int64 `json:"seconds"`
}

// refuseProjections prints the mistakes of projections. The command exits with status 2.
func (e *Environment) refuseProjections(err error) error {
	fmt.Fprintf(e.stderr, "projector: %v\n", err)
	return cli.ErrUsage
}

func (c *diffCommand) run(ctx context.Context, e *Environment) error {
	after, err := load(c.Files[len(c.Files)-1], nil)
	if err != nil {
		return e.refuseProjections(err)
	}
	var s *stored
	if c.needs()&config.PartMongoDB != 0 {
		if s, err = e.connect(ctx); err != nil {
			return err
		}
		defer s.Close(ctx)
	}
	var d difference
	if len(c.Files) == 2 {
		before, err := load(c.Files[0], nil)
		if err != nil {
			return e.refuseProjections(err)
		}
		d.Projections = comparisons(before, after)
		for _, p := range d.Projections {
			p.Rollout, p.Builds = p.rolloutOfFiles()
		}
	} else if d.Projections, err = e.compareWithCatalog(ctx, s, after); err != nil {
		return err
	}
	if err := c.fold(ctx, e, s, &d); err != nil {
		return err
	}
	return c.print(e, d)
}

// fold folds the sample, and estimates what a rollout reads.
func (c *diffCommand) fold(ctx context.Context, e *Environment, s *stored, d *difference) error {
	sample := sampler{
		comparisons: d.Projections,
		max:         c.Sample, firstEvent: e.Config.Fields.FirstEventID, open: map[string][]versus{},
	}
	var total int64
	var err error
	if c.From != "" {
		total, err = sample.fromFile(c.From, e.Config.EventFields())
	} else {
		var reader *eventstore.Reader
		if reader, err = s.events(ctx); err != nil {
			return err
		}
		total, err = sample.fromStore(ctx, reader)
	}
	if err != nil {
		return err
	}
	d.Aggregates, d.Events, d.Unreadable = sample.aggregates, sample.events, sample.unreadable
	r := &d.Rollout
	r.StoreEvents, r.Rate = total, e.Config.History.JobRate()
	for _, p := range d.Projections {
		p.conclude()
		if p.Builds {
			r.Builds++
		}
	}
	r.Reads = int64(float64(r.Builds) * float64(total) * (1 + e.Config.History.VerifySample))
	if r.Rate > 0 {
		r.Seconds = (r.Reads + int64(r.Rate) - 1) / int64(r.Rate)
	}
	return nil
}

// rolloutOfFiles describes what a rollout of the new file starts if the old one is live.
func (c *comparison) rolloutOfFiles() (text string, builds bool) {
	switch c.Kind {
	case changedKind:
		return "rebuild: a new generation is built beside the live one", true
	case newKind:
		return "backfill: the read models are built from the event store", true
	case removedKind:
		return retires, false
	}
	return "nothing", false
}

// retires assumes that a file is of one Deployment. Another Deployment keeps the
// projections that it declares, even while none of its pods runs.
const retires = "retire: nothing writes the projection any more; its collection stays until \"projector projections drop\""

// compareWithCatalog compares projections with the live definitions of the catalog.
func (e *Environment) compareWithCatalog(ctx context.Context, s *stored, after []*projection.Projection) ([]*comparison, error) {
	found, err := s.entries(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(_ string, entry *catalog.Entry) bool {
		return !e.Config.Pipeline().SameEvents(entry.Pipeline)
	})
	if len(found) == 0 {
		fmt.Fprintln(e.stderr, "the catalog has no projection of this event store: every projection is new")
	}
	live := maps.Clone(found)
	// A file does not remove projections in Go, nor those of another pipeline.
	other := func(entry *catalog.Entry) bool {
		return e.Config.ServiceBus.Subscription != "" && entry.Pipeline != e.Config.Pipeline().String()
	}
	maps.DeleteFunc(live, func(name string, entry *catalog.Entry) bool {
		declared := slices.ContainsFunc(after, func(p *projection.Projection) bool { return p.Name() == name })
		return entry.Live == nil || entry.RetiredAt != nil || !declared && (entry.Live.InCode || other(entry))
	})
	lives, err := e.liveFoldables(live, nil)
	if err != nil {
		return nil, err
	}
	before := make([]*projection.Projection, len(lives))
	for i, f := range lives {
		before[i] = f.Projection
	}
	all := comparisons(before, after)
	for _, c := range all {
		c.Rollout, c.Builds = c.rolloutOver(found[c.Projection])
	}
	return all, nil
}

// rolloutOver describes what a rollout of the new definition starts. entry is the
// catalog's; nil if there is none.
func (c *comparison) rolloutOver(entry *catalog.Entry) (text string, builds bool) {
	switch {
	case c.after == nil:
		return retires, false
	case entry != nil && entry.HasGivenUp(c.after.Hash()):
		return fmt.Sprintf("nothing: %s; \"projector projections rebuild\" builds it", entry.GivenUp), false
	case entry == nil || entry.Live == nil && entry.Building == nil:
		return c.rolloutOfFiles()
	case entry.RetiredAt != nil:
		return fmt.Sprintf("rebuild: the projection was retired at %s, so it is built again", cli.Time(*entry.RetiredAt)), true
	}
	hash := c.after.Hash()
	switch b := entry.Building; {
	case entry.Wanted() == hash && b != nil:
		return fmt.Sprintf("nothing: generation %d has this definition and is %s", b.Generation, b.State), false
	case entry.Wanted() == hash:
		return "nothing", false
	case entry.Live != nil && entry.Live.Hash == hash:
		return fmt.Sprintf("cancel: generation %d (another definition, %s) is given up when no pod declares it any more", b.Generation, b.State), false
	}
	text = "rebuild: a new generation is built beside the live one"
	if b := entry.Building; b != nil {
		text = fmt.Sprintf("rebuild: a new generation is built instead of generation %d, which is %s", b.Generation, b.State)
	}
	if entry.Seen(hash) {
		text += "; the projection has had this definition before, so this begins when no pod declares the present one any more"
	}
	return text, true
}

// print prints the result. It returns [cli.ErrFindings] if a comparison differs.
func (c *diffCommand) print(e *Environment, d difference) error {
	var findings error
	for _, p := range d.Projections {
		if p.differs() {
			findings = cli.ErrFindings
		}
	}
	if c.JSON() {
		return errors.Join(cli.PrintJSON(e.stdout, d), findings)
	}
	return errors.Join(printLines(e.stdout, "difference", func(p printer) { p.difference(d) }), findings)
}
