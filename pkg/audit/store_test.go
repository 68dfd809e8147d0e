package audit

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

func newStore(t *testing.T) (*mongotest.Collection, *Store) {
	t.Helper()
	c := server.Collection(In(server.Database(t)))
	return c, NewStore(c)
}

var retry = Entry{Who: "ada@pod", Command: "parked retry", What: "2 aggregates", Why: "the definition is corrected"}

func TestDoRecordsTheChangeBeforeAndAfter(t *testing.T) {
	t.Parallel()
	_, s := newStore(t)
	err := s.Do(t.Context(), retry, func(ctx context.Context) (map[string]int64, error) {
		during, err := s.List(ctx, "", 1)
		if err != nil || len(during) != 1 || during[0].Outcome != begun || during[0].EndedAt != nil {
			t.Errorf("during the change: %+v, %v", during, err)
		}
		return map[string]int64{"retried": 2}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.List(t.Context(), "parked", 10)
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries %+v, %v", entries, err)
	}
	e := entries[0]
	if e.Who != retry.Who || e.Command != retry.Command || e.What != retry.What || e.Why != retry.Why || e.Outcome != done || e.Counts["retried"] != 2 || e.At.IsZero() || e.EndedAt == nil {
		t.Errorf("entry %+v", e)
	}
	if others, err := s.List(t.Context(), "jobs", 10); err != nil || len(others) != 0 {
		t.Errorf("entries of another command: %+v, %v", others, err)
	}
}

func TestDoRecordsAChangeThatFailsOrIsInterrupted(t *testing.T) {
	t.Parallel()
	_, s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	refused := errors.New(strings.Repeat("ä", maxTextBytes))
	err := s.Do(ctx, retry, func(context.Context) (map[string]int64, error) {
		cancel()
		return map[string]int64{"retried": 1}, refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	entries, err := s.List(t.Context(), "", 10)
	if err != nil || len(entries) != 1 || entries[0].Outcome != Failed || entries[0].Counts["retried"] != 1 || len(entries[0].Error) > maxTextBytes || !strings.HasPrefix(entries[0].Error, "ä") {
		t.Errorf("entries %+v, %v", entries, err)
	}
}

func TestDoChangesNothingIfTheAuditCannotBeWritten(t *testing.T) {
	t.Parallel()
	c, s := newStore(t)
	refused := errors.New("not the primary")
	c.Before = func(context.Context, string) error { return refused }
	err := s.Do(t.Context(), retry, func(context.Context) (map[string]int64, error) {
		t.Error("the change was made")
		return nil, nil
	})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}
