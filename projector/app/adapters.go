package app

import (
	"context"

	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/project"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// readModels makes the loader and the writer the engine's store.
type readModels struct {
	loader *readmodel.Loader
	writer *readmodel.Writer
}

var _ project.Store = readModels{}

// kinds are the engine's kinds of write in the writer's terms.
var kinds = map[project.WriteKind]readmodel.Kind{
	project.WriteWatermark: readmodel.MoveWatermark,
	project.WriteCreate:    readmodel.Create,
	project.WriteUpdate:    readmodel.Update,
	project.WriteDelete:    readmodel.Delete,
	project.WriteErase:     readmodel.Erase,
}

// statuses are the writer's in the engine's terms.
var statuses = map[readmodel.Status]project.WriteStatus{
	readmodel.Unknown:  project.WriteUnknown,
	readmodel.Applied:  project.WriteApplied,
	readmodel.Stale:    project.WriteStale,
	readmodel.Rejected: project.WriteRejected,
	readmodel.Conflict: project.WriteConflict,
}

func key(u project.Unit) readmodel.Key {
	return readmodel.Key{Projection: u.Projection, Collection: u.Collection, AggregateID: u.AggregateID, Deletes: u.Deletes}
}

func (r readModels) Load(ctx context.Context, units []project.Unit) ([]project.Loaded, error) {
	keys := make([]readmodel.Key, len(units))
	for i, u := range units {
		keys[i] = key(u)
	}
	states, err := r.loader.Load(ctx, keys)
	if err != nil {
		return nil, err
	}
	loaded := make([]project.Loaded, len(states))
	for i, s := range states {
		loaded[i] = project.Loaded(s)
	}
	return loaded, nil
}

func (r readModels) Release(loaded []project.Loaded) {
	states := make([]readmodel.State, len(loaded))
	for i, l := range loaded {
		states[i] = readmodel.State(l)
	}
	r.loader.Release(states)
}

func (r readModels) Write(ctx context.Context, writes []project.Write) ([]project.Written, error) {
	operations := make([]readmodel.Operation, len(writes))
	for i := range writes {
		w := &writes[i]
		operations[i] = readmodel.Operation{Key: key(w.Unit), Kind: kinds[w.Kind], From: w.From, To: w.To, Document: w.Document, Update: w.Update}
	}
	results, err := r.writer.Apply(ctx, operations)
	if err != nil {
		return nil, err
	}
	written := make([]project.Written, len(results))
	for i, result := range results {
		written[i] = project.Written{Status: statuses[result.Status], Err: result.Err}
	}
	return written, nil
}

// parking makes the parked list the engine's.
type parking struct {
	store *park.Store
}

var _ project.Parking = parking{}

func parkKey(u project.Unit) park.Key {
	return park.Key{Projection: u.Projection, AggregateID: u.AggregateID}
}

func (p parking) Parked(ctx context.Context, units []project.Unit) ([]project.Position, error) {
	keys := make([]park.Key, len(units))
	for i, u := range units {
		keys[i] = parkKey(u)
	}
	parked, err := p.store.Parked(ctx, keys)
	if err != nil {
		return nil, err
	}
	positions := make([]project.Position, len(parked))
	for i, position := range parked {
		positions[i] = project.Position(position)
	}
	return positions, nil
}

func (p parking) Park(ctx context.Context, parked []project.ParkedUnit) error {
	markers := make([]park.Marker, len(parked))
	for i, u := range parked {
		markers[i] = park.Marker{
			Key: parkKey(u.Unit), RawAggregateID: u.RawAggregateID,
			Reason: string(u.Cause.Reason), Resumes: u.Cause.Reason.Resumes(),
			EventID: u.Cause.EventID, Head: u.Head,
		}
		if u.Cause.Err != nil {
			markers[i].Error = u.Cause.Err.Error()
		}
	}
	return p.store.Park(ctx, markers)
}

func (p parking) Advance(ctx context.Context, heads []project.Head) error {
	risen := make([]park.Head, len(heads))
	for i, h := range heads {
		risen[i] = park.Head{Key: parkKey(h.Unit), EventID: h.EventID}
	}
	return p.store.Advance(ctx, risen)
}
