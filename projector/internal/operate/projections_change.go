package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// author names the person who changes the catalog by a command.
func author(c cli.Change) catalog.Author {
	return catalog.Author{Who: c.Person(), Why: c.Why, At: time.Now()}
}

// catalogAttempts bounds the attempts at a change. An attempt fails if a pod has changed
// the entry since it was read.
const catalogAttempts = 5

// propose asks for confirmation of a change of the projection's entry, and makes it. plan
// returns what the change does to an entry, as text and as the changed entry.
func (n projectionName) propose(ctx context.Context, s *stored, c cli.Change, plan func(old *catalog.Entry) (what string, next *catalog.Entry, err error)) (after *catalog.Entry, err error) {
	before, err := n.entry(ctx, s)
	if err != nil {
		return nil, err
	}
	what, _, err := plan(before)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, c, what, func(ctx context.Context) (map[string]int64, error) {
		after, err = n.changeEntry(ctx, s, func(old *catalog.Entry) (*catalog.Entry, error) {
			_, next, err := plan(old)
			return next, err
		})
		return nil, err
	})
	return after, err
}

// changeEntry changes the projection's entry. It tries again if a pod has changed the entry
// since it was read.
func (n projectionName) changeEntry(ctx context.Context, s *stored, change func(*catalog.Entry) (*catalog.Entry, error)) (*catalog.Entry, error) {
	var conflict error
	for range catalogAttempts {
		old, err := n.entry(ctx, s)
		if err != nil {
			return nil, err
		}
		next, err := change(old)
		if err != nil {
			return nil, err
		}
		written, err := s.catalog.Write(ctx, old, next)
		if !errors.Is(err, catalog.ErrConflict) {
			return written, err
		}
		conflict = err
	}
	return nil, fmt.Errorf("%w; try again", conflict)
}

type projectionsRebuildCommand struct {
	projectionName
	cli.Change
	AllowParked  *int64 `name:"allow-parked" placeholder:"N" help:"Promote the new generation although up to this many of its aggregates are parked. If a generation of the same definition is being built, the number applies to it."`
	AllowMissing *int64 `name:"allow-missing" placeholder:"N" help:"Promote the new generation although up to this many live read models have no events in the event store, and are deleted by the promotion. If a generation of the same definition is being built, the number applies to it."`
}

func (*projectionsRebuildCommand) needs() config.Part { return config.PartMongoDB | config.PartFields }

// Validate checks the flags. kong calls it.
func (c *projectionsRebuildCommand) Validate() error {
	for name, n := range map[string]*int64{"parked": c.AllowParked, "missing": c.AllowMissing} {
		if n != nil && *n < 0 {
			return fmt.Errorf("--allow-%s is %d: use 0 or more", name, *n)
		}
	}
	return nil
}

// allowed returns what the promotion tolerates: what it has tolerated, with the given flags.
func (c *projectionsRebuildCommand) allowed(before catalog.Allowed) catalog.Allowed {
	if c.AllowParked != nil {
		before.Parked = *c.AllowParked
	}
	if c.AllowMissing != nil {
		before.Archived = *c.AllowMissing
	}
	return before
}

func (c *projectionsRebuildCommand) run(ctx context.Context, e *Environment) error {
	declared, err := c.declared(e)
	if err != nil {
		return err
	}
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	if _, err := s.events(ctx); err != nil {
		return err
	}
	after, err := c.propose(ctx, s, c.Change, func(old *catalog.Entry) (string, *catalog.Entry, error) { return c.plan(ctx, s, old, declared) })
	if err == nil {
		fmt.Fprintf(e.stdout, "generation %d of projection %s is %s; the projectors build it, and \"projector projections show %s\" shows their progress\n",
			after.Building.Generation, after.Name, after.Building.State, after.Name)
	}
	return err
}

// declared returns the definition of the configured projections; nil if there is none.
func (c *projectionsRebuildCommand) declared(e *Environment) (*catalog.Definition, error) {
	projections, err := load(e.Config.Projections.Path, e.inCode)
	if err != nil {
		return nil, e.refuseProjections(err)
	}
	for _, d := range catalog.Declare(projections...) {
		if d.Name == c.Name {
			return &d.Definition, nil
		}
	}
	return nil, nil
}

// plan returns what a rebuild does to an entry, as text and as the changed entry.
func (c *projectionsRebuildCommand) plan(ctx context.Context, s *stored, e *catalog.Entry, declared *catalog.Definition) (what string, next *catalog.Entry, err error) {
	by := author(c.Change)
	if e.RetiredAt != nil {
		return "", nil, fmt.Errorf("projection %s is retired: it is built again as soon as a pod declares it", c.Name)
	}
	definition := declared
	switch {
	case definition != nil:
	case e.Building != nil:
		definition = &e.Building.Definition
	case e.Live != nil:
		definition = &e.Live.Definition
	default:
		return "", nil, fmt.Errorf("projection %s has no definition any more: set PENSTOCK_PROJECTIONS to a file that declares it", c.Name)
	}
	if b := e.Building; b != nil && b.Hash == definition.Hash && b.State != catalog.Failed {
		allowed := c.allowed(b.Allowed)
		if b.Allowed == allowed {
			return "", nil, fmt.Errorf("generation %d of projection %s is being built by this definition already: it is %s", b.Generation, c.Name, b.State)
		}
		next, err = catalog.Allow(e, allowed, by)
		return fmt.Sprintf("allow %d parked aggregates and %d deleted read models without events in generation %d of projection %s", allowed.Parked, allowed.Archived, b.Generation, c.Name), next, err
	}
	if err := c.rolledOut(ctx, s, e, definition.Hash); err != nil {
		return "", nil, err
	}
	next, err = start(ctx, s, e, *definition, by)
	if err != nil {
		return "", nil, err
	}
	var before catalog.Allowed
	if b := e.Building; b != nil && b.Hash == definition.Hash { // it has failed, and is repeated
		before = b.Allowed
	}
	next.Building.Allowed = c.allowed(before)
	what = fmt.Sprintf("build generation %d of projection %s by definition %s", next.Building.Generation, c.Name, definition.Hash)
	if e.Building != nil {
		what += fmt.Sprintf(", instead of generation %d, which is %s", e.Building.Generation, e.Building.State)
		if e.Building.State == catalog.Failed {
			what += ": " + e.Building.Reason
		}
	}
	return what, next, nil
}

// rolledOut fails if the file has another definition than the catalog, and no running projector
// declares it: the projectors would end the build at once.
func (c *projectionsRebuildCommand) rolledOut(ctx context.Context, s *stored, e *catalog.Entry, hash string) error {
	if hash == e.Wanted() {
		return nil
	}
	alive, err := s.alive(ctx, e.Pipeline)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(podsOf(c.Name, alive), func(pod podView) bool { return pod.Declares == hash }) {
		return nil
	}
	return fmt.Errorf("no running projector declares definition %s of projection %s, which PENSTOCK_PROJECTIONS has: roll it out first; projectors then build it by themselves, or with this command if its build was cancelled", hash, c.Name)
}

// start begins to build a definition. Its collection must belong to no other projection.
func start(ctx context.Context, s *stored, e *catalog.Entry, definition catalog.Definition, by catalog.Author) (*catalog.Entry, error) {
	all, err := catalog.NewCatalog(s.State.Collection(catalog.CatalogName), e.Pipeline).List(ctx)
	if err != nil {
		return nil, err
	}
	for name, other := range all {
		if name != e.Name && other.Uses(definition.Collection) {
			return nil, fmt.Errorf("collection %s belongs to projection %s: give projection %s another collection, or delete the other one first with projector projections drop %s", definition.Collection, name, e.Name, name)
		}
	}
	return catalog.Start(e, e.Pipeline, catalog.Declared{Name: e.Name, Definition: definition}, 0, by)
}

type projectionsCancelCommand struct {
	projectionName
	cli.Change
}

func (c *projectionsCancelCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	number := int64(0) // of the generation that the person confirms
	after, err := c.propose(ctx, s, c.Change, func(old *catalog.Entry) (what string, next *catalog.Entry, err error) {
		b := old.Building
		if b != nil && number > 0 && b.Generation != number {
			return "", nil, fmt.Errorf("generation %d of projection %s is being built now: check that one, and repeat the command", b.Generation, c.Name)
		}
		if next, err = catalog.GiveUp(old, author(c.Change)); err != nil {
			return "", nil, err
		}
		number = b.Generation
		return fmt.Sprintf("give up generation %d of projection %s, which is %s", number, c.Name, b.State), next, nil
	})
	if err != nil {
		return err
	}
	live := "readers see no collection of it"
	if after.Live != nil {
		live = fmt.Sprintf("generation %d stays live", after.Live.Generation)
	}
	fmt.Fprintf(e.stdout, "generation %d of projection %s is given up and %s; \"projector projections rebuild %s\", with the projections file, builds its definition again\n", number, c.Name, live, c.Name)
	return nil
}

type projectionsRetireCommand struct {
	projectionName
	cli.Change
}

func (c *projectionsRetireCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	_, err := c.propose(ctx, s, c.Change, func(old *catalog.Entry) (what string, next *catalog.Entry, err error) {
		if old.RetiredAt != nil {
			return "", nil, fmt.Errorf("projection %s is retired already", c.Name)
		}
		if err := c.undeclared(ctx, s, old.Pipeline); err != nil {
			return "", nil, err
		}
		next, err = catalog.Retire(old, author(c.Change))
		return fmt.Sprintf("retire projection %s, which no running projector declares", c.Name), next, err
	})
	if err == nil {
		fmt.Fprintf(e.stdout, "projection %s is retired; a projector that declares it later builds it again\n", c.Name)
	}
	return err
}

// undeclared fails if a running projector declares the projection, because that projector
// would build it again at once.
func (c *projectionsRetireCommand) undeclared(ctx context.Context, s *stored, pipeline string) error {
	alive, err := s.alive(ctx, pipeline)
	if err != nil {
		return err
	}
	for _, pod := range podsOf(c.Name, alive) {
		if pod.Declares != "" {
			return fmt.Errorf("projector %s declares projection %s: remove it from the projections of that projector; it is retired 30s later by itself", pod.Pod, c.Name)
		}
	}
	return nil
}
