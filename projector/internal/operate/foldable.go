package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// foldable is a projection by which a command folds events.
type foldable struct {
	*projection.Projection
	// generation is 0 if the projection comes from a file.
	generation int64
	// origin says where the definition comes from.
	origin string
}

// foldables returns the projections that a command works with: those of
// PENSTOCK_PROJECTIONS if that is set, otherwise those of the catalog. Without names it
// returns all of them.
func (e *Environment) foldables(ctx context.Context, names []string) ([]foldable, error) {
	all, err := e.declaredFoldables()
	if err != nil {
		return nil, err
	}
	if e.Config.Projections.Path == "" {
		if err := e.Config.ValidateParts(config.PartMongoDB); err != nil {
			return nil, fmt.Errorf("set PENSTOCK_PROJECTIONS to the file of the projections, or give the store of the catalog: %w", err)
		}
		s, err := e.connect(ctx)
		if err != nil {
			return nil, err
		}
		defer s.Close(ctx)
		found, err := s.entries(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, err := (projectionName{name}).among(found, s); err != nil {
				return nil, err
			}
		}
		if all, err = e.liveFoldables(found, names); err != nil {
			return nil, err
		}
	}
	return chooseFoldables(all, names)
}

// declaredFoldables returns the projections of the configured file or folder and those of
// the program. It prints their mistakes.
func (e *Environment) declaredFoldables() ([]foldable, error) {
	projections, err := load(e.Config.Projections.Path, e.inCode)
	if err != nil {
		return nil, e.refuseProjections(err)
	}
	all := make([]foldable, len(projections))
	for i, p := range projections {
		all[i] = foldable{Projection: p, origin: e.Config.Projections.Path}
		if p.InCode() {
			all[i].origin = "the program"
		}
	}
	return all, nil
}

// liveFoldables returns the live generations of the catalog. For a projection without one,
// it returns the generation that is being built. It leaves out entries of other event
// stores.
func (e *Environment) liveFoldables(found map[string]*catalog.Entry, names []string) ([]foldable, error) {
	var all []foldable
	for _, name := range slices.Sorted(maps.Keys(found)) {
		entry := found[name]
		if len(names) > 0 && !slices.Contains(names, name) || !e.Config.Pipeline().SameEvents(entry.Pipeline) {
			continue
		}
		var f foldable
		var d catalog.Definition
		switch {
		case entry.Live != nil:
			d, f.generation, f.origin = entry.Live.Definition, entry.Live.Generation, "the catalog, live"
		case entry.Building != nil:
			d, f.generation, f.origin = entry.Building.Definition, entry.Building.Generation, "the catalog, "+string(entry.Building.State)
		default:
			continue
		}
		var err error
		if f.Projection, err = NewCompiler(e.inCode).Compile(d); err != nil {
			if len(names) == 0 && d.InCode {
				fmt.Fprintf(e.stderr, "%s: left out: %v\n", name, err)
				continue
			}
			return nil, fmt.Errorf("projection %s: %w", name, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// chooseFoldables returns the projections with these names, in the order of the names.
func chooseFoldables(all []foldable, names []string) ([]foldable, error) {
	known := make([]string, len(all))
	for i, f := range all {
		known[i] = f.Name()
	}
	if len(all) == 0 && len(names) == 0 {
		return nil, fmt.Errorf("there is no projection: the catalog has none of this event store; set PENSTOCK_PROJECTIONS to the file that declares them")
	}
	if len(names) == 0 {
		return all, nil
	}
	var chosen []foldable
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("there is no projection %q: there are %s", name, cmp.Or(strings.Join(known, ", "), "none"))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
