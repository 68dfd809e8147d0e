package history

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// defaultGrace is the grace of a verification.
const defaultGrace = 30 * time.Second

// verify verifies a span, from its saved position on.
func (w *Workers) verify(ctx context.Context, j job.Job, s span, p job.Progress) error {
	params, err := readParams(j)
	if err != nil {
		return err
	}
	params.Sample, params.GraceMillis = cmp.Or(params.Sample, 1), cmp.Or(params.GraceMillis, defaultGrace.Milliseconds())
	target, err := w.Target(ctx, j.Projection, j.Generation)
	if err != nil {
		return err
	}
	pass := newPass(w, j, &target, params, s.position, s.counts, p)
	defer func() { pass.end() }()
	after := s.position.After
	switch s.Direction {
	case forward:
		return pass.events(ctx, s.start(), s.Until)
	case documents:
		if target.Projection.View() != nil {
			return pass.viewDocuments(ctx, after)
		}
		return pass.documents(ctx, after)
	case absent:
		return pass.absentDocuments(ctx, after)
	case watermarks:
		return pass.watermarks(ctx, after)
	case single:
		return pass.single(ctx, params.Aggregate)
	}
	return fmt.Errorf("a range of job %s has the unknown direction %q", j.ID, s.Direction)
}

// sampled reports whether an aggregate belongs to the sample.
func (p *Params) sampled(aggregateID string) bool {
	if p.Sample >= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(aggregateID))
	// FNV barely mixes the last bytes into the high bits; the multiplication does.
	const golden = 0x9E3779B97F4A7C15
	sum := h.Sum64()
	sum ^= sum >> 32
	return float64((sum*golden)>>11)/(1<<53) < p.Sample
}
