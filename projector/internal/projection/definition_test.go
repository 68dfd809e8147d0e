package projection_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const defined = `
events:
  Registered: {type: object, properties: {name: {type: string}, age: {type: integer}}}
projections:
  - name: users
    collection: userReadModels
    aggregateType: User
    on:
      Registered:
        when: payload.name != 'a b'
        set: {name: payload.name, age: payload.age + 1, "address.city": "payload.name + ' x'"}
        unset: [left, right]
      Left:
        delete: true
`

func TestDefinitionIgnoresDifferencesWithoutMeaning(t *testing.T) {
	t.Parallel()
	want := projectiontest.One(t, defined)
	for name, yaml := range map[string]string{
		"comments": strings.ReplaceAll(defined, "unset:", "# nothing\n        unset:"),
		"order of keys": `
projections:
  - on:
      Left: {delete: true}
      Registered:
        unset: [right, left]
        set: {"address.city": "payload.name + ' x'", age: payload.age + 1, name: payload.name}
        when: payload.name != 'a b'
    aggregateType: User
    collection: userReadModels
    name: users
events:
  Registered: {properties: {age: {type: integer}, name: {type: string}}, type: object}
`,
		"quoting":                         strings.ReplaceAll(defined, "payload.name != 'a b'", `"payload.name != 'a b'"`),
		"block text":                      strings.ReplaceAll(defined, "payload.name != 'a b'", "|\n          payload.name\n            != 'a b'"),
		"spaces in expressions":           strings.ReplaceAll(defined, "payload.age + 1", "payload . age+1 "),
		"comment of CEL":                  strings.ReplaceAll(defined, "payload.age + 1", `"payload.age // of the user\n + 1"`),
		"annotations of schema":           strings.ReplaceAll(defined, "{type: integer}", "{type: integer, description: in years}"),
		"required":                        strings.ReplaceAll(defined, "{type: object, properties", "{type: object, required: [name], properties"),
		"a field that no expression uses": strings.ReplaceAll(defined, "{type: integer}}", "{type: integer}, more: {type: string}}"),
		"another type of number":          strings.ReplaceAll(defined, "{type: integer}", "{bsonType: decimal}"),
		"no snapshots":                    strings.ReplaceAll(defined, "events:", "snapshots: []\nevents:"),
		"schema of another type":          strings.ReplaceAll(defined, "events:", "events:\n  Other: {type: object}"),
		"schema of another projection":    strings.ReplaceAll(defined, "  Registered: {type", "  Left: {type: object, properties: {why: {type: string}}}\n  Registered: {type"),
	} {
		if p := projectiontest.One(t, yaml); p.Definition() != want.Definition() || p.Hash() != want.Hash() {
			t.Errorf("%s changes the definition:\n%s", name, strings.Join(authoring.Difference(want.Definition(), p.Definition()), "\n"))
		}
	}
}

func TestDefinitionShowsEveryChangeOfMeaning(t *testing.T) {
	t.Parallel()
	want := projectiontest.One(t, defined)
	seen := map[string]string{want.Hash(): "nothing"}
	for change, p := range map[string]*projection.Projection{
		"name":           projectiontest.One(t, strings.ReplaceAll(defined, "name: users", "name: customers")),
		"collection":     projectiontest.One(t, strings.ReplaceAll(defined, "userReadModels", "customers")),
		"aggregate type": projectiontest.One(t, strings.ReplaceAll(defined, "aggregateType: User", "aggregateType: Customer")),
		"every type":     projectiontest.One(t, strings.ReplaceAll(defined, "    aggregateType: User\n", "")),
		"snapshot":       projectiontest.One(t, "snapshots: [Snapshotted]\n"+defined),
		"snapshots":      projectiontest.One(t, "snapshots: [Snapshotted, Other]\n"+defined),
		"event type":     projectiontest.One(t, strings.ReplaceAll(defined, "Left", "Gone")),
		"condition":      projectiontest.One(t, strings.ReplaceAll(defined, "'a b'", "'ab'")),
		"space in text":  projectiontest.One(t, strings.ReplaceAll(defined, "'a b'", "'a  b'")),
		"field":          projectiontest.One(t, strings.ReplaceAll(defined, "address.city", "city")),
		"operator":       projectiontest.One(t, strings.ReplaceAll(defined, "unset: [left, right]", "unset: left\n        inc: {right: 1}")),
		"expression":     projectiontest.One(t, strings.ReplaceAll(defined, "age + 1", "age + 2")),
		"declared type":  projectiontest.One(t, strings.ReplaceAll(defined, "{type: integer}", "{type: [integer, \"null\"]}")),
	} {
		if other, taken := seen[p.Hash()]; taken {
			t.Errorf("%s and %s give the same hash", change, other)
		}
		seen[p.Hash()] = change
	}
}

// TestSchemaOnlyChecks folds an event with a double instead of the declared integer.
func TestSchemaOnlyChecks(t *testing.T) {
	t.Parallel()
	without := "projections: [{name: p, collection: c, on: {E: {set: {n: %}}}}]"
	schema := "events: {E: {type: object, properties: {n: {type: integer}, m: {type: integer}}}}\n"
	for _, expression := range []string{
		"payload.n", "payload.n == payload.m", "payload.n + payload.m", "payload.n < payload.m", "string(payload.n) + 'a'", "'[payload.n, payload.m]'",
	} {
		yaml := strings.ReplaceAll(without, "%", expression)
		plain, typed := projectiontest.One(t, yaml), projectiontest.One(t, schema+yaml)
		double := projectiontest.Event(1, "E", `{"n": 1.0, "m": 2.0}`)
		foldedPlain, foldedTyped := plain.Fold(nil, []*event.Event{double}), typed.Fold(nil, []*event.Event{double})
		if foldedPlain.Err != nil || foldedTyped.Err != nil || !bytes.Equal(foldedPlain.State(), foldedTyped.State()) {
			t.Errorf("%s: %v, %v", expression, foldedPlain.Err, foldedTyped.Err)
		}
	}
}

func TestDefinitionCompilesToTheSame(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{
		defined,
		"snapshots: [Snapshotted, Other]\n" + defined,
		`
events:
  E:
    properties:
      text: {type: [string, "null"]}
      when: {bsonType: date}
      id: {bsonType: objectId}
      price: {bsonType: decimal}
      weight: {bsonType: double}
      open: {type: object}
      any: {}
      lines: {type: array, items: {type: object, properties: {sku: {type: string}, n: {type: integer}, unused: {type: string}}}}
      loose: {type: array}
projections:
  - name: all
    collection: all
    on:
      E:
        when: payload.text != null && payload.weight > 1.0 && payload.lines.exists(l, l.sku == 'a' && l.n > 1)
        set:
          t: payload.when + duration('1h')
          id: string(payload.id)
          price: payload.price * payload.price
          open: payload.open.x
          any: payload.any
          loose: payload.loose.map(l, l)
          yes: true
          one: 1
          quote: |
            r"\d+" + 'it\'s' + """a "b" // c"""   // a comment
          optional: payload.?text
`,
	} {
		p := projectiontest.One(t, yaml)
		again, err := projection.Compile(p.Definition())
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Definition())
		}
		if again.Name() != p.Name() || again.Collection() != p.Collection() || !reflect.DeepEqual(again.Sources(), p.Sources()) || again.Deletes() != p.Deletes() || again.Hash() != p.Hash() {
			t.Errorf("compiled is %+v", again)
		}
		if redefined := projection.Redefine(again); redefined != p.Definition() {
			t.Errorf("the compiled definition is another one:\n%s", strings.Join(authoring.Difference(p.Definition(), redefined), "\n"))
		}
	}
}

func TestCompiledDefinitionHasTheSameText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawProjection(t)
		again, err := projection.Compile(p.Definition())
		if err != nil {
			t.Fatal(err)
		}
		if redefined := projection.Redefine(again); redefined != p.Definition() {
			t.Fatalf("%s\n%s", p.Definition(), redefined)
		}
	})
}

func TestDefinitionOfGo(t *testing.T) {
	t.Parallel()
	declare := func(version string, deletes bool) *projection.Projection {
		p := inCode(t, projection.Declaration{
			Name: "p", Collection: "c", Version: version, Deletes: deletes,
			Apply: func(state projection.State, _ *event.Event) (projection.State, error) { return state, nil },
		})
		return p
	}
	if a, b := declare("1", false), declare("1", false); a.Hash() != b.Hash() || !a.InCode() {
		t.Error("the same declaration has two hashes")
	}
	if a, b, c := declare("1", false), declare("2", false), declare("1", true); a.Hash() == b.Hash() || a.Hash() == c.Hash() {
		t.Error("a changed declaration has the same hash")
	}
	if _, err := projection.Compile(declare("1", false).Definition()); err == nil || !strings.Contains(err.Error(), "the projection is in Go") {
		t.Errorf("compiled Go: %v", err)
	}
	if _, err := projection.New(projection.Declaration{Name: "p", Collection: "c", Version: strings.Repeat("v", 65), Apply: func(s projection.State, _ *event.Event) (projection.State, error) { return s, nil }}); err == nil {
		t.Error("a version of 65 bytes is taken")
	}
}

func TestCompileRefusesUnknownDefinitions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{}", `{"semantics":2,"name":"p","collection":"c","on":{}}`, `{"semantics":1,"name":"p","collection":"c","on":{"E":{"set":{"a":"b +"}}}}`} {
		if _, err := projection.Compile(text); err == nil {
			t.Errorf("compiled %q", text)
		}
	}
}

// The hash of a definition is stored. If a new version of Penstock computes another hash,
// its rollout rebuilds every read model.
func TestHashesStayTheSameAcrossVersions(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, defined)
	const text = `{"aggregateType":"User","collection":"userReadModels","events":{"Registered":{"bsonType":["object"],"properties":{"age":{"bsonType":["number"]},"name":{"bsonType":["string"]}}}},"name":"users","on":{"Left":{"delete":true},"Registered":{"set":{"address.city":"payload.name+' x'","age":"payload.age+1","name":"payload.name"},"unset":["left","right"],"when":"payload.name!='a b'"}},"semantics":1}`
	if p.Definition() != text {
		t.Errorf("definition is now %s", p.Definition())
	}
	if p.Hash() != "c96f213c6ebeb4f5" {
		t.Errorf("hash is %s", p.Hash())
	}
	for handler, hash := range map[string]string{
		`{when: payload.a > 1, set: {a.b: payload.b, c: "payload.?c"}, unset: [d, e.f], inc: {n: 1}}`: "ff3e6922c9a2c038",
		`{push: {l: "{'x': payload.x}"}, pull: {m: payload.m}, addToSet: {s: payload.s}}`:             "df592b7569268c57",
		`{min: {least: payload.n}, max: {most: timestamp}}`:                                           "654780af31892cc0",
		`{set: {"a b-c": "state.a == null ? 1 : 2"}}`:                                                 "a1e0531f5a786130",
		`{when: has(state.a), delete: true}`:                                                          "c548b4509406ad8a",
	} {
		if p := projectiontest.On(t, handler); p.Hash() != hash {
			t.Errorf("the hash of %s is now %s", handler, p.Hash())
		}
	}
}

func TestNamesOfCollectionsUnderConstructionAreRefused(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"users.generation-2": true, "users.promotion-17": true, "users.generation": false, "users.generation-x": false} {
		_, err := projection.Parse("test.yaml", []byte("projections: [{name: p, collection: "+name+", on: {E: {delete: true}}}]"))
		if (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOrderOfKeysDoesNotDecideTheOrderOfNestedFields checks that equal definitions give equal
// documents: a loop over a nested document shows the order of its fields.
func TestOrderOfKeysDoesNotDecideTheOrderOfNestedFields(t *testing.T) {
	t.Parallel()
	for _, handlers := range [][2]string{
		{`{set: {m.z: 1, m.a: 2}, inc: {m.k: 1}}`, `{inc: {m.k: 1}, set: {m.a: 2, m.z: 1}}`},
		{`{set: {"m[payload.k].z": 1, "m[payload.k].a": 2}}`, `{set: {"m[payload.k].a": 2, "m[payload.k].z": 1}}`},
		{`{set: {"l[id=payload.k].z": 1, "l[id=payload.k].a": 2}}`, `{set: {"l[id=payload.k].a": 2, "l[id=payload.k].z": 1}}`},
	} {
		one, other := projectiontest.On(t, handlers[0]), projectiontest.On(t, handlers[1])
		stored, err := projection.Compile(one.Definition())
		if err != nil || one.Hash() != other.Hash() {
			t.Fatalf("%s and %s are not the same definition: %v", one.Definition(), other.Definition(), err)
		}
		events := []*event.Event{projectiontest.Event(1, "E", `{"k":"x"}`)}
		result := func(p *projection.Projection) string {
			f := p.Fold(nil, events)
			return projectiontest.JSON(t, f.State())
		}
		want := result(one)
		for _, p := range []*projection.Projection{other, stored} {
			if got := result(p); got != want {
				t.Errorf("%s gives %s, and the same definition gives %s", handlers[0], want, got)
			}
		}
	}
}
