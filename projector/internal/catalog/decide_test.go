package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

var by = catalog.Author{Who: "pod", At: time.UnixMilli(0).UTC()}

// users declares the projection users with a definition.
func users(hash string) catalog.Declared {
	return catalog.Declared{Name: "users", Definition: catalog.Definition{Hash: hash, Text: "text of " + hash, Collection: "userReadModels"}}
}

// podWith returns an alive pod that declares users with a definition.
func podWith(hash string) catalog.Registration {
	return catalog.Registration{Pod: "pod-" + hash, Declares: []catalog.Declaration{{Projection: "users", Hash: hash}}}
}

func entriesOf(all ...*catalog.Entry) map[string]*catalog.Entry {
	entries := map[string]*catalog.Entry{}
	for _, e := range all {
		if e != nil {
			entries[e.Name] = e
		}
	}
	return entries
}

// live returns the entry users with a live definition.
func live(hash string) *catalog.Entry {
	return catalog.Create("p", users(hash), by)
}

// start begins to build another definition.
func start(t interface{ Fatal(...any) }, e *catalog.Entry, hash string) *catalog.Entry {
	next, err := catalog.Start(e, "p", users(hash), 0, by)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func in(e *catalog.Entry, state catalog.State) *catalog.Entry {
	next := *e
	building := *e.Building
	building.State = state
	next.Building = &building
	return &next
}

// givenUp returns the entry after an operator has cancelled its build.
func givenUp(t interface{ Fatal(...any) }, e *catalog.Entry) *catalog.Entry {
	next, err := catalog.GiveUp(e, by)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func retired(t *testing.T, e *catalog.Entry) *catalog.Entry {
	t.Helper()
	next, err := catalog.Retire(e, by)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// say describes an entry: its live generation, then its building one.
func say(e *catalog.Entry) string {
	if e == nil {
		return "none"
	}
	var b strings.Builder
	if e.Live != nil {
		fmt.Fprintf(&b, "live %d %s", e.Live.Generation, e.Live.Hash)
		if e.Live.Frozen {
			b.WriteString(" frozen")
		}
	}
	if e.Building != nil {
		fmt.Fprintf(&b, " %s %d %s", e.Building.State, e.Building.Generation, e.Building.Hash)
	}
	if e.RetiredAt != nil {
		b.WriteString(" retired")
	}
	for _, g := range e.Garbage {
		fmt.Fprintf(&b, " garbage %d", g.Generation)
	}
	return strings.TrimSpace(b.String())
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entries  map[string]*catalog.Entry
		declares string
		alive    []catalog.Registration
		empty    bool
		used     int64
		// want is the entry after the change; empty for no change.
		want string
	}{
		"an empty event store needs no build":                                     {declares: "a", empty: true, want: "live 1 a"},
		"a new projection is built":                                               {declares: "a", want: "building 1 a"},
		"a number that was used is not used again":                                {declares: "a", used: 5, want: "building 6 a garbage 5"},
		"a number that was used is not used again over an empty event store":      {declares: "a", empty: true, used: 5, want: "building 6 a garbage 5"},
		"an unchanged definition changes nothing":                                 {entries: entriesOf(live("a")), declares: "a"},
		"a changed definition is built":                                           {entries: entriesOf(live("a")), declares: "b", alive: []catalog.Registration{podWith("a"), podWith("b")}, want: "live 1 a building 2 b"},
		"the definition that is being built changes nothing":                      {entries: entriesOf(start(t, live("a"), "b")), declares: "b"},
		"a pod with the old file follows":                                         {entries: entriesOf(start(t, live("a"), "b")), declares: "a", alive: []catalog.Registration{podWith("a"), podWith("b")}},
		"a rollback during the build ends it":                                     {entries: entriesOf(start(t, live("a"), "b")), declares: "a", alive: []catalog.Registration{podWith("a")}, want: "live 1 a garbage 2"},
		"a definition that changes again replaces the build":                      {entries: entriesOf(start(t, live("a"), "b")), declares: "c", alive: []catalog.Registration{podWith("b"), podWith("c")}, want: "live 1 a building 3 c garbage 2"},
		"a definition that changes again waits for the promotion":                 {entries: entriesOf(in(start(t, live("a"), "b"), catalog.Promoting)), declares: "c"},
		"no rollback during the promotion":                                        {entries: entriesOf(in(start(t, live("a"), "b"), catalog.Promoting)), declares: "a"},
		"a failed build is not repeated":                                          {entries: entriesOf(in(start(t, live("a"), "b"), catalog.Failed)), declares: "b"},
		"a cancelled build is not repeated":                                       {entries: entriesOf(givenUp(t, start(t, live("a"), "b"))), declares: "b"},
		"a cancelled build is not repeated by a pod that starts alone":            {entries: entriesOf(givenUp(t, start(t, live("a"), "b"))), declares: "b", alive: []catalog.Registration{podWith("b")}},
		"a cancelled first build is not repeated":                                 {entries: entriesOf(givenUp(t, start(t, nil, "a"))), declares: "a"},
		"after a cancelled first build, another definition needs no confirmation": {entries: entriesOf(givenUp(t, start(t, nil, "a"))), declares: "b", want: "building 2 b garbage 1"},
		"after a cancelled build, the live definition changes nothing":            {entries: entriesOf(givenUp(t, start(t, live("a"), "b"))), declares: "a"},
		"after a cancelled build, another definition is built":                    {entries: entriesOf(givenUp(t, start(t, live("a"), "b"))), declares: "c", want: "live 1 a building 3 c garbage 2"},
		"after a cancelled build, a retired projection declared again is built":   {entries: entriesOf(retired(t, givenUp(t, start(t, live("a"), "b")))), declares: "b", want: "live 1 a frozen building 3 b garbage 2"},
		"a failed build is superseded":                                            {entries: entriesOf(in(start(t, live("a"), "b"), catalog.Failed)), declares: "c", want: "live 1 a building 3 c garbage 2"},
		"a rollback ends a failed build":                                          {entries: entriesOf(in(start(t, live("a"), "b"), catalog.Failed)), declares: "a", want: "live 1 a garbage 2"},
		"an old pod after the promotion changes nothing":                          {entries: entriesOf(catalog.Promote(start(t, live("a"), "b"), by)), declares: "a", alive: []catalog.Registration{podWith("a"), podWith("b")}},
		"a rollback after the promotion is built":                                 {entries: entriesOf(catalog.Promote(start(t, live("a"), "b"), by)), declares: "a", alive: []catalog.Registration{podWith("a")}, want: "live 2 b building 3 a garbage 1"},
		"a retired projection declared again is built":                            {entries: entriesOf(retired(t, live("a"))), declares: "a", want: "live 1 a frozen building 2 a"},
		"a retired projection declared again with another definition is built":    {entries: entriesOf(retired(t, live("a"))), declares: "b", want: "live 1 a frozen building 2 b"},
		"a retired projection whose definition changes back during the build":     {entries: entriesOf(start(t, retired(t, live("a")), "b")), declares: "a", want: "live 1 a frozen building 3 a garbage 2"},
		"a rebuild of the live one brings back none that was given up":            {entries: entriesOf(start(t, givenUp(t, start(t, live("a"), "b")), "a")), declares: "b", alive: []catalog.Registration{podWith("b")}},
		"a projection retired during its first build is built again":              {entries: entriesOf(retired(t, start(t, nil, "a"))), declares: "a", want: "building 2 a garbage 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := catalog.Decide(catalog.View{
				Pipeline: "p", Entries: test.entries, Declares: []catalog.Declared{users(test.declares)},
				Alive: test.alive, Empty: test.empty, Used: map[string]int64{"users": test.used},
			}, by)
			got := ""
			if len(changes) > 0 {
				got = say(changes[0].New)
			}
			if got != test.want || len(changes) > 1 {
				t.Errorf("decided %q, want %q", got, test.want)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	building := start(t, live("a"), "b")
	prepared := in(building, catalog.Building)
	prepared.Building.UUID = bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}
	for name, test := range map[string]struct {
		entry *catalog.Entry
		want  string
	}{
		"live":                                  {live("a"), "1 userReadModels;"},
		"before there is a collection":          {building, "1 userReadModels;"},
		"building":                              {prepared, "1 userReadModels;2 users.generation-2 building defers;"},
		"catching up":                           {in(prepared, catalog.CatchingUp), "1 userReadModels;2 users.generation-2 building;"},
		"promoting":                             {in(prepared, catalog.Promoting), "1 userReadModels;2 users.generation-2 building;"},
		"failed":                                {in(prepared, catalog.Failed), "1 userReadModels;"},
		"retired":                               {retired(t, prepared), ""},
		"declared again, live generation stale": {start(t, retired(t, live("a")), "a"), ""},
	} {
		got := ""
		for _, target := range catalog.Targets(entriesOf(test.entry)) {
			got += fmt.Sprint(target.Generation, " ", target.Collection)
			if target.Building {
				got += " building"
			}
			if target.Defers {
				got += " defers"
			}
			got += ";"
		}
		if got != test.want {
			t.Errorf("%s: targets are %q, want %q", name, got, test.want)
		}
	}
}

func TestUndeclaredProjections(t *testing.T) {
	t.Parallel()
	entries := entriesOf(live("a"), retired(t, &catalog.Entry{Name: "gone", Live: &catalog.Live{}}), &catalog.Entry{Name: "old"})
	if got := catalog.Undeclared(entries, []catalog.Registration{podWith("b")}); !slices.Equal(got, []string{"old"}) {
		t.Errorf("undeclared are %v", got)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	e := live("a")
	for i := range 100 {
		e = catalog.Promote(start(t, e, fmt.Sprint(i)), by)
	}
	if n := len(e.History); n != 20 || e.Generations != 101 || e.Live.Generation != 101 {
		t.Errorf("%d records, generation %d of %d", n, e.Live.Generation, e.Generations)
	}
}

func TestFormerCollectionStaysInTheEntry(t *testing.T) {
	t.Parallel()
	moved := users("b")
	moved.Collection = "people"
	e, err := catalog.Start(live("a"), "p", moved, 0, by)
	if err != nil {
		t.Fatal(err)
	}
	e = catalog.Promote(e, by)
	if len(e.Left) != 1 || e.Left[0].Collection != "userReadModels" || !e.Uses("userReadModels") || !e.Uses("people") {
		t.Errorf("left is %v", e.Left)
	}
	e = catalog.Promote(start(t, e, "c"), by)
	if len(e.Left) != 1 || e.Left[0].Collection != "people" {
		t.Errorf("after the way back, left is %v", e.Left)
	}
}
