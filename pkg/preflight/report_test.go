package preflight_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/preflight"
)

func TestOnlyPermanentProblemsDelayTheStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		add         func(*preflight.Report)
		fails, held bool
	}{
		"ok":          {func(r *preflight.Report) { r.OK("topic", "there") }, false, false},
		"warning":     {func(r *preflight.Report) { r.Warn("topic", "no duplicate detection", "create another") }, false, false},
		"failed":      {func(r *preflight.Report) { r.Fail("topic", "does not exist", "create it") }, true, true},
		"not reached": {func(r *preflight.Report) { r.Unreached("topic", "no answer", "wait") }, true, false},
	} {
		var r preflight.Report
		test.add(&r)
		if err := r.Print(&bytes.Buffer{}, preflight.Flags{}); errors.Is(err, cli.ErrFindings) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.Print(&bytes.Buffer{}, preflight.Flags{Init: true}); errors.Is(err, cli.ErrFindings) != test.held {
			t.Errorf("%s, in an init container: %v", name, err)
		}
	}
}

func TestEachLineHasItsRemedy(t *testing.T) {
	t.Parallel()
	var r preflight.Report
	r.OK("state", "may write")
	r.Fail("topic", "does not\nexist", "create it")
	var out bytes.Buffer
	_ = r.Print(&out, preflight.Flags{})
	if got, want := out.String(), "ok       state: may write\nfailed   topic: does not exist\n           -> create it\n"; got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	_ = r.Print(&out, preflight.Flags{Output: cli.Output{Output: cli.OutputJSON}})
	var lines []preflight.Line
	if err := json.Unmarshal(out.Bytes(), &lines); err != nil || len(lines) != 2 || lines[1].State != preflight.Failed || lines[1].Remedy != "create it" {
		t.Errorf("%v, %v", lines, err)
	}
}

func TestSecondaryOfADirectConnectionIsNamed(t *testing.T) {
	t.Parallel()
	hello := mongotest.Hello(bson.E{Key: "setName", Value: "rs0"}, bson.E{Key: "isWritablePrimary", Value: false})
	server := mongotest.NewReplies(t, bson.D{{Key: "ok", Value: 1}}, hello)
	var r preflight.Report
	if r.Reach(t.Context(), mongox.Client{Client: server.Client, What: "state"}) {
		t.Error("a secondary is checked further")
	}
	var out bytes.Buffer
	_ = r.Print(&out, preflight.Flags{})
	if got := out.String(); !strings.Contains(got, "is not the primary\n") || !strings.Contains(got, mongox.RemedyNotPrimary) {
		t.Errorf("printed %s", got)
	}
}
