package readmodel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestDocumentNearItsLimitIsReported checks that a document is reported before its parts are
// parked: each write is counted, and the first one is logged.
func TestDocumentNearItsLimitIsReported(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newTestStore(t, db)
	var lines strings.Builder
	s.logger = zerolog.New(&lines)
	counted := func() float64 { return testutil.ToFloat64(s.metrics.nearLimit.WithLabelValues("sums")) }
	for i := range 9 {
		if i == 7 && (counted() > 0 || lines.Len() > 0) {
			t.Errorf("a document with %d of %d parts is reported: %s", i, sumsFullness, &lines)
		}
		s.put(t, viewUnit(fmt.Sprint(i)), 1, partWith("x", to("k", 1), to(fmt.Sprint("other", i), 1)))
	}
	if n := counted(); n != 2 {
		t.Errorf("%v writes are counted, not 2", n)
	}
	if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"document":"k","parts":8,`) || !strings.Contains(got, `"percentOfLimit":80`) {
		t.Errorf("logged: %s", got)
	}
	// A rejected part, and one that leaves, are no reasons to report.
	s.apply(t, model.Applied, partWrite(viewUnit("0"), s.state(t, viewUnit("0")), 2, nil), partWrite(viewUnit("1"), s.state(t, viewUnit("1")), 2, nil))
	s.apply(t, model.Rejected, partWrite(viewUnit("9"), model.State{}, 1, partWith("x", to("k", sumsLimit))))
	if n := counted(); n != 2 {
		t.Errorf("%v writes are counted, not 2", n)
	}
	expectWhole(t, db, viewUnit(""))
}

func TestPartWithoutADocumentIsCounted(t *testing.T) {
	t.Parallel()
	s := newTestStore(t, newDatabase(t))
	unit := viewUnit("a")
	for i, step := range []struct {
		part bson.Raw
		want float64
	}{
		{partWith("x", to("k", 1)), 0},
		{partWith("y"), 1}, // the key has gone
		{partWith("y"), 1}, // only the watermark moves
		{partWith("z"), 2},
		{nil, 2}, // the part has gone
	} {
		s.put(t, unit, int64(i+1), step.part)
		if got := testutil.ToFloat64(s.metrics.withoutDocument.WithLabelValues("sums")); got != step.want {
			t.Errorf("step %d: %v are counted, want %v", i+1, got, step.want)
		}
	}
}
