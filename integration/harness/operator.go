package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// ProjectionState is a projection as `projector projections list` shows it.
type ProjectionState struct {
	Name string `json:"name"`
	// State is live, or the state of the generation that is being built.
	State string `json:"state"`
	Live  *struct {
		Generation int64 `json:"generation"`
	} `json:"live"`
	Building *struct {
		Generation int64  `json:"generation"`
		Reason     string `json:"reason"`
	} `json:"building"`
}

// LiveGeneration returns the number of the generation that readers see; 0 if there is none.
func (p ProjectionState) LiveGeneration() int64 {
	if p.Live == nil {
		return 0
	}
	return p.Live.Generation
}

// Verified is the result of `projector verify` for one projection.
type Verified struct {
	Projection string    `json:"projection"`
	Generation int64     `json:"generation"`
	State      string    `json:"state"`
	Reason     string    `json:"reason"`
	Findings   []Finding `json:"findings"`
}

// Finding is a read model that is wrong or parked.
type Finding struct {
	Projection  string `json:"projection"`
	AggregateID string `json:"aggregateId"`
	// Document is the _id of a document of a view; AggregateID is empty then.
	Document    string `json:"document"`
	Kind        string `json:"kind"`
	Detail      string `json:"detail"`
	Repaired    bool   `json:"repaired"`
	RepairError string `json:"repairError"`
	Differences []struct {
		Path string `json:"path"`
	} `json:"differences"`
}

// ID returns the _id of the read model.
func (f Finding) ID() string { return cmp.Or(f.Document, f.AggregateID) }

// String returns the finding in short.
func (f Finding) String() string {
	text := fmt.Sprintf("%s %s: %s", f.Projection, f.ID(), f.Kind)
	for _, d := range f.Differences {
		text += " " + d.Path
	}
	return text
}

// Projections runs the projector's command that lists the projections.
func (p *Pipeline) Projections(ctx context.Context) ([]ProjectionState, error) {
	return list[ProjectionState](ctx, p, "projections", "list")
}

// Verify runs the projector's command that compares read models with the fold of their
// events. Findings are no error.
func (p *Pipeline) Verify(ctx context.Context, flags ...string) ([]Verified, error) {
	return list[Verified](ctx, p, append([]string{"verify"}, flags...)...)
}

// list decodes the JSON that a command prints. Status 1 with JSON means findings, which are
// no error.
func list[T any](ctx context.Context, p *Pipeline, args ...string) ([]T, error) {
	out, err := p.Projector(ctx, append(args, "--output=json")...)
	if err != nil {
		return nil, err
	}
	var records []T
	if err := json.Unmarshal(out.Stdout, &records); err != nil || out.Status > 1 {
		return nil, fmt.Errorf("run projector %s: status %d: %s", strings.Join(args, " "), out.Status, strings.TrimSpace(string(out.Stderr)))
	}
	return records, nil
}
