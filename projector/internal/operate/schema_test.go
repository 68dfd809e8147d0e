package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
	"github.com/penstock-cdc/penstock/projector/schema"
)

// schemaOf compiles one of the schemas, as the command prints it.
func schemaOf(t *testing.T, tests bool) *jsonschema.Schema {
	t.Helper()
	var printed bytes.Buffer
	if err := (&schemaCommand{Tests: tests}).run(t.Context(), &Environment{stdout: &printed}); err != nil {
		t.Fatal(err)
	}
	text, err := jsonschema.UnmarshalJSON(&printed)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", text); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// validate returns why a schema refuses a YAML document.
func validate(t *testing.T, schema *jsonschema.Schema, document string) error {
	t.Helper()
	var content any
	if err := yaml.Unmarshal([]byte(document), &content); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// values are YAML values of all kinds.
var values = []string{`a`, `payload`, `"1"`, `""`, `1`, `-1`, `1.5`, `true`, `false`, `null`, `[]`, `[a]`, `[null]`, `[1]`, `[[a]]`, `{}`, `{a: 1}`, `{a: "1"}`, `{a: null}`, `{a: []}`, `{a: {}}`, `{_id: "1"}`, `{a.b: "1"}`, `{"a[payload.b]": "1"}`, `{"a[id='.'].c": "1"}`, "{'`a(b)`': '1'}", `{a..b: "1"}`, `{$a: "1"}`, `{a: {a: 1}}`, `{a: {a: null}}`, `{a: {a: {}}}`, `{a: {a: {eventId: 1}}}`, `string`, `[string, null]`, `integer`, `number`, `boolean`, `object`, `array`, `"null"`, `int`, `long`, `double`, `decimal`, `bool`, `date`, `objectId`, `binData`, `part.a`, `fields`, `{a: {count: true}}`}

// compareValues puts a key with each of the values into a template, and fails if schema and
// parser disagree on the document. It reports whether the parser accepts any of them.
func compareValues(t *testing.T, schema *jsonschema.Schema, parses func(string) bool, template, key string, values []string) (accepted bool) {
	t.Helper()
	for _, value := range values {
		document := strings.NewReplacer("KEY", key, "VALUE", value).Replace(template)
		parsed := parses(document)
		if !parsed && key != "nonsense" {
			continue
		}
		problem := validate(t, schema, document)
		if parsed && problem != nil {
			t.Errorf("the parser accepts what the schema refuses:\n%s%v", document, problem)
		}
		accepted = accepted || parsed
		if key == "nonsense" && problem == nil {
			t.Errorf("the schema accepts an unknown key:\n%s", document)
		}
	}
	return accepted
}

// TestProjectionsSchemaAgreesWithTheParser checks that the schema accepts every document
// that the parser accepts, for every key with values of every kind, and that it refuses
// unknown keys. The reverse is impossible: a schema does not check expressions.
func TestProjectionsSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	compiled := schemaOf(t, false)
	const (
		declared = "projections:\n  - {name: p, collection: c, on: {E: {set: {z: \"1\"}}}, KEY: VALUE}\n"
		handler  = "projections:\n  - {name: p, collection: c, on: {E: {KEY: VALUE}}}\n"
		second   = "projections:\n  - {name: p, collection: c, on: {E: {set: {b: \"1\"}, KEY: VALUE}}}\n"
		payload  = "events: {E: {KEY: VALUE}}\nprojections:\n  - {name: p, collection: c, on: {E: {set: {b: \"1\"}}}}\n"
		typed    = "events: {E: {type: object, KEY: VALUE}}\nprojections:\n  - {name: p, collection: c, on: {E: {set: {b: \"1\"}}}}\n"
		array    = "events: {E: {properties: {a: {bsonType: array, KEY: VALUE}}}}\nprojections:\n  - {name: p, collection: c, on: {E: {set: {b: \"1\"}}}}\n"
		fields   = "events: {E: {properties: {a: {}}, KEY: VALUE}}\nprojections:\n  - {name: p, collection: c, on: {E: {set: {b: \"1\"}}}}\n"
		push     = "projections:\n  - {name: p, collection: c, on: {E: {push: {a: {value: \"1\", KEY: VALUE}}}}}\n"
		kept     = "projections:\n  - {name: p, collection: c, on: {E: {push: {a: {keep: 1, KEY: VALUE}}}}}\n"
		upcast   = "upcasts: {E: {type: F, KEY: VALUE}}\nprojections:\n  - {name: p, collection: c, on: {F: {set: {b: \"1\"}}, a: {set: {b: \"1\"}}}}\n"
		payloads = "upcasts: {F: {payload: payload, KEY: VALUE}}\nprojections:\n  - {name: p, collection: c, on: {string: {set: {b: \"1\"}}}}\n"
		view     = "views:\n  - {name: v, collection: c, from: [{aggregateType: A, key: part.a, on: {E: {set: {z: \"1\"}}}}], KEY: VALUE}\n"
		source   = "views:\n  - {name: v, collection: c, from: [{aggregateType: A, key: part.a, on: {E: {set: {z: \"1\"}}}, KEY: VALUE}]}\n"
		list     = "views:\n  - {name: v, collection: c, as: {l: {KEY: VALUE}}, from: [{aggregateType: A, key: part.a, on: {E: {set: {z: \"1\"}}}}]}\n"
		sorted   = "views:\n  - {name: v, collection: c, as: {l: {list: true, KEY: VALUE}}, from: [{aggregateType: A, key: part.a, on: {E: {set: {z: \"1\"}}}}]}\n"
		total    = "views:\n  - {name: v, collection: c, totals: {t: {KEY: VALUE}}, from: [{aggregateType: A, key: part.a, on: {E: {set: {z: \"1\"}}}}]}\n"
		counted  = "views:\n  - {name: v, collection: c, totals: {t: {count: true, KEY: VALUE}}, from: [{aggregateType: A, key: part.a, on: {E: {set: {z: \"1\"}}}}]}\n"
		root     = "projections:\n  - {name: p, collection: c, on: {E: {set: {b: \"1\"}}}}\nKEY: VALUE\n"
	)
	refuses := func(document string) error {
		_, err := projection.Parse("p.yaml", []byte(document))
		return err
	}
	parses := func(document string) bool { return refuses(document) == nil }
	keys := schemaKeys(t, schema.Projections)
	accepted := map[string]bool{}
	for _, template := range []string{declared, handler, second, payload, typed, fields, array, push, kept, upcast, payloads, view, source, list, sorted, total, counted, root} {
		expectKeys(t, keys, refuses, template)
		for _, key := range append(keys, "nonsense") {
			if template == root && key == "projections" || template == declared && strings.Contains("name collection on", key) || strings.Contains(strings.ReplaceAll(template, "{", " "), " "+key+":") {
				continue // the key would be there twice
			}
			if compareValues(t, compiled, parses, template, key, values) {
				accepted[key] = true
			}
		}
	}
	for _, key := range keys {
		if !accepted[key] && !strings.Contains("name collection on projections from key", key) {
			t.Errorf("the schema has %s, and no document of this test in which the parser accepts it", key)
		}
	}
	for _, document := range []string{
		"projections: [{collection: c, on: {E: {delete: true}}}]", "projections: [{name: p, on: {E: {delete: true}}}]", "projections: [{name: p, collection: c}]",
		"projections: [{name: p q, collection: c, on: {E: {delete: true}}}]", "projections: [{name: p, collection: parked, on: {E: {delete: true}}}]",
		"projections: {}", handlerWith("delete: false"), handlerWith("delete: true, set: {a: 1}"), handlerWith("when: \"true\""), handlerWith("set: [a]"),
		handlerWith("set: {a: [1]}"), handlerWith("set: {a: null}"), handlerWith("set: {_id: \"1\"}"), handlerWith("set: {lastEventId.a: \"1\"}"), handlerWith("unset: []"),
		handlerWith("push: {a: {value: eventId}}"), handlerWith("push: {a: {value: eventId, keep: 0}}"), handlerWith("push: {a: {value: eventId, sort: n}}"),
		handlerWith("set: {\"[a]\": \"1\"}"), handlerWith("set: {\"_id['a']\": \"1\"}"), handlerWith("set: {a(b): \"1\"}"),
		"upcasts: {E: {}}", "upcasts: {E: {when: \"true\"}}", "upcasts: {E: {to: F}}", "upcasts: [E]",
		"projections: [{name: p, collection: c, on: {E: []}}]", "projections: [{name: p, collection: c, on: {E: [a]}}]",
		viewWith("", ""), viewWith("key: part.a", "keep: totals"), viewWith("key: part.a", "in: parts"), viewWith("key: part.a", "as: a, keep: fields"), viewWith("key: part.a", "as: parts"), viewWith("key: part.a", "as: a.b"),
		viewWith("key: part.a", "totals: {t: {count: 1}}"), viewWith("key: part.a", "totals: {t: {}}"), viewWith("key: part.a", "totals: {t: {set: part.a, by: part.a}}"), viewWith("key: part.a", "totals: {t: {sum: part.a, count: true}}"), viewWith("key: part.a", "totals: {_id: {count: true}}"),
		viewWith("key: part.a", "totals: {}"), "views: [{name: v, collection: c, from: []}]", "views: [{name: v, collection: c, on: {E: {delete: true}}}]", "views: {}",
		"events: {E: {minimum: 5}}", "events: {E: {type: text}}", "events: {E: {type: string, bsonType: string}}", "events: {E: string}",
	} {
		if parses(document) || validate(t, compiled, document) == nil {
			t.Errorf("the parser and the schema must refuse %s", document)
		}
	}
}

// TestProjectionsSchemaAcceptsRulesAndViews checks what the test of keys does not: lists of rules,
// and views with all their words.
func TestProjectionsSchemaAcceptsRulesAndViews(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"projections: [{name: p, collection: c, on: {A | B: [{when: eventId > 1, delete: true}, {set: {a: 1}}]}}]",
		shopViews,
		"views: [{name: v, collection: c, as: all, from: [{aggregateType: A, key: 1, each: \"[1]\", as: some, on: {E: {set: {a: 1}}}, compute: {b: state.a}, totals: {t: {min: part.a, where: true}, u: {set: part.a}, v: {sum: part.a, by: part.b}}}]}]",
	} {
		if _, err := projection.Parse("p.yaml", []byte(document)); err != nil {
			t.Error(err)
		}
		if err := validate(t, schemaOf(t, false), document); err != nil {
			t.Error(err)
		}
	}
}

func viewWith(key, more string) string {
	words := strings.Trim(key+", "+more, ", ")
	return "views: [{name: v, collection: c, from: [{" + strings.Trim("aggregateType: A, on: {E: {delete: true}}, "+words, ", ") + "}]}]"
}

func handlerWith(words string) string {
	return "projections: [{name: p, collection: c, on: {E: {" + words + "}}}]"
}

// schemaKeys returns the names of all properties in a schema that have a description.
func schemaKeys(t *testing.T, text []byte) []string {
	t.Helper()
	var content any
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	return describedKeys(content)
}

func describedKeys(schema any) (keys []string) {
	switch s := schema.(type) {
	case map[string]any:
		if p, ok := s["properties"].(map[string]any); ok {
			for key := range p {
				if described, ok := p[key].(map[string]any); ok && described["description"] != nil {
					keys = append(keys, key)
				}
			}
		}
		for _, part := range s {
			keys = append(keys, describedKeys(part)...)
		}
	case []any:
		for _, part := range s {
			keys = append(keys, describedKeys(part)...)
		}
	}
	return keys
}

// listed matches the parser's list of keys in its answer to an unknown one.
var listed = regexp.MustCompile(`unknown (?:key|word|keyword) nonsense.*?(\w+(?:, \w+)+)(?:\n|$)`)

// expectKeys expects that the schema describes each key that the parser knows in a template.
func expectKeys(t *testing.T, keys []string, refuses func(string) error, template string) {
	t.Helper()
	err := refuses(strings.NewReplacer("KEY", "nonsense", "VALUE", "1").Replace(template))
	m := listed.FindStringSubmatch(fmt.Sprint(err))
	if m == nil {
		t.Fatalf("the parser lists no keys: %v", err)
	}
	for key := range strings.SplitSeq(m[1], ", ") {
		if !slices.Contains(keys, key) {
			t.Errorf("the schema does not describe %s:\n%s", key, template)
		}
	}
}

// TestTestsSchemaAgreesWithTheParser does the same for test files.
func TestTestsSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	compiled, fields := schemaOf(t, true), event.DefaultFields()
	const (
		file   = "tests: [{name: c, expect: {}}]\nKEY: VALUE\n"
		whole  = "tests: [{name: c, expect: {}, KEY: VALUE}]\n"
		steps  = "tests: [{name: c, steps: [{expect: {}, KEY: VALUE}]}]\n"
		bare   = "tests: [{name: c, KEY: VALUE}]\n"
		event  = "tests: [{name: c, given: [{eventType: E, aggregateId: a, KEY: VALUE}], expect: {}}]\n"
		events = "tests: [{name: c, given: [{eventType: E, KEY: VALUE}], expect: {}}]\n"
		parked = "tests: [{name: c, expectParked: {a: {a: {KEY: VALUE}}}}]\n"
	)
	refuses := func(document string) error {
		f := testcase.Parse("a_test.yaml", []byte(document), fields)
		f.Resolve(projectiontest.All(t, `projections: [{name: a, collection: a, on: {E: {set: {n: "1"}}}}]`), Reasons())
		if len(f.Problems) == 0 {
			return nil
		}
		var all strings.Builder
		for _, p := range f.Problems {
			all.WriteString(p.Message + "\n")
		}
		return errors.New(all.String())
	}
	parses := func(document string) bool { return refuses(document) == nil }
	keys := schemaKeys(t, schema.Tests)
	accepted := map[string]bool{}
	more := slices.Concat(Reasons(), []string{"2026-01-01T00:00:00Z", "{$date: 2026-01-01T00:00:00Z}", "{$oid: 65f000000000000000000001}", "[{expect: {}}]", "[{given: []}]", "[{eventType: E, aggregateId: a}]"}, values)
	for _, template := range []string{file, whole, steps, bare, event, events, parked} {
		expectKeys(t, keys, refuses, template)
		for _, key := range append(keys, "nonsense") {
			if strings.Contains(strings.ReplaceAll(template, "{", " "), " "+key+":") || strings.HasPrefix(template, key+":") {
				continue // the key would be there twice
			}
			if compareValues(t, compiled, parses, template, key, more) {
				accepted[key] = true
			}
		}
	}
	for _, key := range keys {
		if !accepted[key] && !strings.Contains("tests name eventType", key) {
			t.Errorf("the schema has %s, and no document of this test in which the parser accepts it", key)
		}
	}
	for _, document := range []string{
		"tests: []", "tests: {}", "tests: [{expect: {}}]", "tests: [{name: c}]", "tests: [{name: c, expect: {}, steps: [{expect: {}}]}]", "tests: [{name: c, steps: []}]",
		"tests: [{name: c, steps: [{}]}]", "tests: [{name: c, given: [{}], expect: {}}]", "tests: [{name: c, expectParked: {a: {a: {reason: bad}}}}]",
		"{sequence: none, tests: [{name: c, expect: {}}]}",
	} {
		if parses(document) || validate(t, compiled, document) == nil {
			t.Errorf("the parser and the schema must refuse %s", document)
		}
	}
}

// modeline names the schema of a YAML file for the editors' YAML language server.
var modeline = regexp.MustCompile(`(?m)^# yaml-language-server: \$schema=(\S+)$`)

// TestExamplesNameTheirSchemaAndMatchIt checks that every example of projections and of
// tests has the modeline, that the named schema exists, and that it accepts the example.
func TestExamplesNameTheirSchemaAndMatchIt(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Schema{"projections.json": schemaOf(t, false), "projections_test.json": schemaOf(t, true)}
	examples := 0
	check := func(where, text, folder string) {
		t.Helper()
		name := "projections.json"
		if regexp.MustCompile(`(?m)^tests:`).MatchString(text) {
			name = "projections_test.json"
		}
		examples++
		if err := validate(t, schemas[name], text); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		m := modeline.FindStringSubmatch(text)
		switch {
		case m == nil:
			t.Errorf("%s has no line # yaml-language-server: $schema=…/projector/schema/%s", where, name)
		case m[1] == schema.ProjectionsID && name == "projections.json", m[1] == schema.TestsID && name == "projections_test.json":
		case folder == "" || filepath.Join(folder, m[1]) != filepath.Join("..", "..", "..", "projector", "schema", name):
			t.Errorf("%s names the schema %s, which is not projector/schema/%s", where, m[1], name)
		}
	}
	shop := filepath.Join("..", "..", "..", "integration", "sandbox", "shop")
	files, err := filepath.Glob(filepath.Join(shop, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		check(file, string(text), shop)
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join("..", "..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			// Check whole files only, not extracts.
			if regexp.MustCompile(`(?m)^(projections|tests):\n`).MatchString(block[1]) {
				check(page, block[1], "")
			}
		}
	}
	if examples < 6 {
		t.Errorf("only %d examples were found", examples)
	}
}
