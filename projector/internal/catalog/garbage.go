package catalog

import (
	"context"
	"slices"
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

// remove removes the data of a generation. A suspended pod may have created its shadow collection again,
// also after the generation was live, by writing to it.
func (s *step) remove(ctx context.Context, g Garbage) (done bool, err error) {
	if err := s.cancel(ctx, g.Jobs, "the generation was given up"); err != nil {
		return false, err
	}
	if err := s.Collections.Drop(ctx, shadowName(s.entry.Name, g.Generation)); err != nil {
		return false, err
	}
	return s.Data.Remove(ctx, s.entry.Name, g.Generation)
}
