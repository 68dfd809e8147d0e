package audit

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

func TestConfirmedRecordsAConfirmedChangeOnly(t *testing.T) {
	t.Parallel()
	_, s := newStore(t)
	made := 0
	do := func(context.Context) (map[string]int64, error) {
		made++
		return map[string]int64{"discarded": 3}, nil
	}
	change := Change{Flags: cli.Change{Who: "ada", Why: "test data"}, Command: "quarantine discard", What: "discard 3 events", Out: &bytes.Buffer{}}
	if err := s.Confirmed(t.Context(), change, do); !errors.Is(err, cli.ErrNotConfirmed) || !strings.Contains(err.Error(), change.What) {
		t.Errorf("without an answer: %v", err)
	}
	if entries, err := s.List(t.Context(), "", 1); made != 0 || len(entries) != 0 || err != nil {
		t.Errorf("made %d changes, recorded %v, %v", made, entries, err)
	}
	change.Flags.Yes = true
	if err := s.Confirmed(t.Context(), change, do); err != nil || made != 1 {
		t.Errorf("made %d changes, %v", made, err)
	}
	var stdout, stderr bytes.Buffer
	listing := Listing{Limit: 10}
	if err := listing.Print(t.Context(), s, &stdout, &stderr); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %s", err, &stderr)
	}
	for _, want := range []string{"ada@", "quarantine discard", "discard 3 events", "done, 3 discarded", "test data"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &stdout)
		}
	}
}

func TestEmptyListingPrintsThatThereAreNoChanges(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	_, s := newStore(t)
	listing := Listing{Limit: 10}
	if err := listing.Print(t.Context(), s, &stdout, &stderr); err != nil || stdout.Len() > 0 || stderr.String() != "no changes\n" {
		t.Errorf("%v, %q, %q", err, &stdout, &stderr)
	}
	for limit, valid := range map[int]bool{0: false, 1: true, maxList: true, maxList + 1: false} {
		if err := (&Listing{Limit: limit}).Validate(); (err == nil) != valid {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func TestUnreadableEntryIsLeftOutOfTheListing(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	c, s := newStore(t)
	c.Set(t, bson.D{{Key: "_id", Value: "mine"}}, bson.D{{Key: "who", Value: 7}})
	if _, err := s.begin(t.Context(), retry); err != nil {
		t.Fatal(err)
	}
	listing := Listing{Limit: 10}
	if err := listing.Print(t.Context(), s, &stdout, &stderr); err != nil || !strings.Contains(stdout.String(), retry.Who) || !strings.Contains(stderr.String(), `_id "mine" of collection audit cannot be read`) {
		t.Errorf("%v, %q, %q", err, &stdout, &stderr)
	}
}
