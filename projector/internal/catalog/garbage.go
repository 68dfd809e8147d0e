package catalog

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// collect removes some of the data of one generation that is not needed any more. more is
// set if the next round should follow soon.
func (s *step) collect(ctx context.Context) (more bool, err error) {
	if len(s.entry.Garbage) == 0 {
		return false, nil
	}
	alive, err := s.pods(ctx)
	if err != nil {
		return false, err
	}
	for i, g := range s.entry.Garbage {
		again := g.Removed != nil
		if serves(alive, s.entry.Name, g.Generation) || again && time.Since(g.Since) < linger {
			continue
		}
		done, err := s.remove(ctx, g)
		if err != nil || !done {
			return true, err
		}
		if again {
			if err := s.dropUnknown(ctx); err != nil {
				return true, err
			}
		}
		next := *s.entry
		next.Garbage = slices.Clone(s.entry.Garbage)
		if again {
			next.Garbage = slices.Delete(next.Garbage, i, i+1)
		} else {
			now := time.Now()
			next.Garbage[i].Removed = &now
			s.Logger.Info().Str("projection", s.entry.Name).Int64("generation", g.Generation).Msg("data of an old generation removed")
		}
		return true, s.write(ctx, &next)
	}
	return false, nil
}

func serves(alive []Registration, projection string, number int64) bool {
	return slices.ContainsFunc(alive, func(r Registration) bool {
		return slices.ContainsFunc(r.Serves, func(s Serving) bool {
			return s.Projection == projection && s.Generation == number
		})
	})
}

func (s *step) remove(ctx context.Context, g Garbage) (done bool, err error) {
	if err := s.cancel(ctx, g.Jobs, "the generation was given up"); err != nil {
		return false, err
	}
	if g.Shadow != "" {
		if err := s.Collections.Drop(ctx, g.Shadow); err != nil {
			return false, err
		}
	}
	return s.Data.Remove(ctx, s.entry.Name, g.Generation)
}

// shadowPattern matches the name of a shadow collection, with or without that of a promotion.
var shadowPattern = regexp.MustCompile(`^(.+)\.generation-([0-9]+)(\.promotion-[0-9]+)?$`)

// dropUnknown drops the shadow collections of the projection that the entry does not name: a
// suspended pod has created them by writing to them.
func (s *step) dropUnknown(ctx context.Context) error {
	names, err := s.collections(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		match := shadowPattern.FindStringSubmatch(name)
		if match == nil || match[1] != s.entry.Name || named(s.entry, match[2]) {
			continue
		}
		if err := s.Collections.Drop(ctx, name); err != nil {
			return err
		}
		s.Logger.Info().Str("projection", s.entry.Name).Str("collection", name).Msg("collection of no generation dropped")
	}
	return nil
}

// named reports whether an entry names a generation that has a shadow collection, or may
// get one.
func named(e *Entry, number string) bool {
	n, err := strconv.ParseInt(number, 10, 64)
	return err != nil || n > e.Generations || e.Building != nil && e.Building.Generation == n
}
