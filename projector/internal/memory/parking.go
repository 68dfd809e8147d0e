package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// ErrNotParked is returned if there is no marker to advance.
var ErrNotParked = errors.New("the aggregate is not parked")

// Parked returns the position of each unit.
func (s *Stores) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	positions := make([]model.Position, len(units))
	for i := range units {
		if m, ok := s.markers[keyOf(&units[i])]; ok {
			positions[i] = model.Position{EventID: m.EventID, Resumes: m.Resumes}
		}
	}
	return positions, nil
}

// Park stores markers. If a unit already has a marker, its head only rises. The new
// marker replaces the old one if exactly one of them resumes, or if it does not resume
// and is of another event.
func (s *Stores) Park(_ context.Context, markers []model.Marker) error {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, m := range markers {
		old, ok := s.markers[keyOf(&m.Unit)]
		next := m
		if ok {
			if old.Resumes == m.Resumes && (m.Resumes || old.EventID == m.EventID) {
				next = old
			}
			next.Head = max(old.Head, m.Head)
		}
		if ok && next.EventID == old.EventID && next.Head == old.Head && next.Resumes == old.Resumes {
			continue
		}
		s.markers[keyOf(&m.Unit)] = next
		if err := s.changed(); err != nil {
			return err
		}
	}
	return nil
}

// Advance raises the heads of parked units. It returns [ErrNotParked] if one of them has
// no marker.
func (s *Stores) Advance(_ context.Context, heads []model.Head) error {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	missing := 0
	for _, h := range heads {
		m, ok := s.markers[keyOf(&h.Unit)]
		if !ok {
			missing++
			continue
		}
		if h.EventID <= m.Head {
			continue
		}
		m.Head = h.EventID
		s.markers[keyOf(&h.Unit)] = m
		if err := s.changed(); err != nil {
			return err
		}
	}
	if missing > 0 {
		return fmt.Errorf("advance %d parked aggregates, of which %d have no marker: %w", len(heads), missing, ErrNotParked)
	}
	return nil
}

// Markers returns all markers, in the order of projections, aggregates and generations.
func (s *Stores) Markers() []model.Marker {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]model.Marker, 0, len(s.markers))
	for _, m := range s.markers {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b model.Marker) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.AggregateID, b.AggregateID), cmp.Compare(a.Later(), b.Later()))
	})
	return all
}
