package authoring

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Starter is a first file of projections for the added events, with its tests.
type Starter struct {
	// Projections is the content of the file of projections, and Tests that of its test
	// file. Names are the names of the projections.
	Projections, Tests []byte
	Names              []string
}

// The fields that a starter's read models have besides those of payloads.
const (
	starterCount = "eventCount"
	starterType  = "lastEventType"
	starterTime  = "lastEventAt"
)

// maxStarterFields bounds the fields of one handler.
const maxStarterFields = 30

const starterComment = `A start, written by "projector init" from a sample of the event store: one projection
for each type of aggregate. It counts the events and keeps the last value of each field.
Change it to what your readers need; docs/projections.md and docs/cookbook.md say how,
and docs/views.md for a document that is made of several aggregates.

  projector check FILE          says what is wrong with the file
  projector test .              runs the tests beside it
  projector explain --aggregate ID --projections FILE
                                says what each event of an aggregate does

A right-hand side is an expression in CEL, so a text has quotes of its own: "'open'".
payload.?name is an optional: if the event has no name, nothing is set.`

// Starter writes a first file of projections. The tests refer to it by fileName. It fails
// if nothing was added.
func (i *Inference) Starter(fileName string) (Starter, error) {
	if i.count == 0 {
		return Starter{}, errors.New("write a first file of projections: no event was read")
	}
	var s Starter
	root, projections := mapping(), &yaml.Node{Kind: yaml.SequenceNode}
	cases := &yaml.Node{Kind: yaml.SequenceNode}
	taken := map[string]bool{}
	for _, aggregateType := range slices.Sorted(maps.Keys(i.types)) {
		p := i.starterFor(aggregateType, taken)
		s.Names = append(s.Names, p.name)
		projections.Content = append(projections.Content, p.declaration())
		cases.Content = append(cases.Content, p.test())
	}
	key := scalar("projections")
	key.HeadComment = starterComment
	root.Content = append(root.Content, key, projections)
	i.section(root)
	var err error
	if s.Projections, err = encodeYAML(root); err != nil {
		return Starter{}, err
	}
	if _, err := projection.Parse(fileName, s.Projections); err != nil {
		return Starter{}, fmt.Errorf("write a first file of projections for these events: %w", err)
	}
	file := scalar("projections")
	file.HeadComment = `The tests of ` + fileName + `: run "projector test .". Each says which events are given, and
which documents are expected. A document may have other fields, unless exact: true.`
	s.Tests, err = encodeYAML(mapping(file, scalar(fileName), scalar("tests"), cases))
	return s, err
}

// starterProjection is the projection of one aggregate type.
type starterProjection struct {
	name, collection, aggregateType string
	handlers                        []starterHandler
}

// starterHandler is the projection's handler for one event type.
type starterHandler struct {
	eventType string
	timed     bool
	fields    []starterField
	// skipped are the payload's fields that the handler leaves out.
	skipped []string
}

type starterField struct {
	name string
	word string
}

func (i *Inference) starterFor(aggregateType string, taken map[string]bool) starterProjection {
	p := starterProjection{aggregateType: aggregateType}
	base := starterName(aggregateType)
	p.name = base
	if !strings.HasSuffix(base, "s") {
		p.name += "s"
	}
	for n := 2; taken[p.name] || taken[base]; n++ {
		base = fmt.Sprintf("%s%d", starterName(aggregateType), n)
		p.name = base + "s"
	}
	taken[p.name], taken[base] = true, true
	p.collection = base + "ReadModels"
	for _, eventType := range i.types[aggregateType] {
		p.handlers = append(p.handlers, i.events[eventType].starterHandler(eventType, !i.timeless[eventType]))
	}
	return p
}

// unnamable matches what the name of a projection leaves out: all but letters and digits, and
// digits at the beginning.
var unnamable = regexp.MustCompile(`^[^A-Za-z]+|[^A-Za-z0-9]+`)

// starterName derives a name from an aggregate type: UserAccount becomes userAccount.
func starterName(aggregateType string) string {
	const maxLength = 40
	name := unnamable.ReplaceAllString(aggregateType, "")
	if name == "" {
		return "aggregate"
	}
	name = name[:min(len(name), maxLength)]
	return strings.ToLower(name[:1]) + name[1:]
}

// selectable matches the field names that payload.?field can contain, except for words of CEL.
var selectable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *shape) starterHandler(eventType string, timed bool) starterHandler {
	h := starterHandler{eventType: eventType, timed: timed}
	if _, word := s.word(); word != "object" || s.open {
		return h
	}
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		_, word := s.fields[name].word()
		switch {
		case word == "array", len(h.fields) == maxStarterFields, s.fields[name].open,
			!selectable.MatchString(name), slices.Contains([]string{"false", "in", "null", "true"}, name), model.EngineOwned(name),
			name == starterCount, name == starterType, name == starterTime:
			h.skipped = append(h.skipped, name)
		default:
			h.fields = append(h.fields, starterField{name, word})
		}
	}
	return h
}

func (p starterProjection) declaration() *yaml.Node {
	name := scalar(p.name)
	name.LineComment = "names its watermarks, metrics and parked list; never change it"
	n := mapping(scalar("name"), name, scalar("collection"), scalar(p.collection))
	if p.aggregateType != "" {
		n.Content = append(n.Content, scalar("aggregateType"), scalar(p.aggregateType))
	}
	on := mapping()
	for _, h := range p.handlers {
		eventType := scalar(h.eventType)
		if len(h.skipped) > 0 {
			eventType.HeadComment = printable("fields left out: " + strings.Join(h.skipped, ", "))
		}
		on.Content = append(on.Content, eventType, h.node())
	}
	key := scalar("on")
	if p.aggregateType == "" {
		key.HeadComment = "Without aggregateType, the projection concerns every aggregate of the store."
	}
	n.Content = append(n.Content, key, on)
	return n
}

// printable escapes the characters that YAML does not allow in a comment.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		text = strings.Trim(strconv.QuoteToGraphic(text), `"`)
	}
	return text
}

func (h starterHandler) node() *yaml.Node {
	count, values := mapping(scalar(starterCount), scalar("1")), mapping(scalar(starterType), scalar("eventType"))
	count.Style = yaml.FlowStyle
	if h.timed {
		values.Content = append(values.Content, scalar(starterTime), scalar("timestamp"))
	}
	told := false
	for _, f := range h.fields {
		value := scalar("payload.?" + f.name)
		if number := f.word == "integer" || f.word == "number" || f.word == "decimal"; number && !told {
			value.LineComment = "a number: inc instead of set adds it up, max keeps the largest"
			told = true
		}
		values.Content = append(values.Content, scalar(f.name), value)
	}
	return mapping(scalar("inc"), count, scalar("set"), values)
}

// test returns a test case with one event of each type.
func (p starterProjection) test() *yaml.Node {
	given := &yaml.Node{Kind: yaml.SequenceNode}
	document := map[string]*yaml.Node{}
	for _, h := range p.handlers {
		ev, payload := mapping(scalar("eventType"), scalar(h.eventType)), mapping()
		for _, f := range h.fields {
			if value := f.sample(); value != nil {
				payload.Content = append(payload.Content, scalar(f.name), value)
				document[f.name] = value
			}
		}
		if len(payload.Content) > 0 {
			ev.Content = append(ev.Content, scalar("payload"), payload)
		}
		given.Content = append(given.Content, ev)
	}
	expected := mapping(
		scalar(starterCount), tagged("!!int", fmt.Sprint(len(p.handlers))), scalar(starterType), scalar(p.handlers[len(p.handlers)-1].eventType))
	for _, name := range slices.Sorted(maps.Keys(document)) {
		expected.Content = append(expected.Content, scalar(name), document[name])
	}
	n := mapping(scalar("name"), scalar("events of "+p.name+" are counted, and their last values kept"), scalar("aggregateId"), scalar("one"))
	if p.aggregateType != "" {
		n.Content = append(n.Content, scalar("aggregateType"), scalar(p.aggregateType))
	}
	n.Content = append(n.Content, scalar("given"), given, scalar("expect"), mapping(scalar(p.name), mapping(scalar("one"), expected)))
	return n
}

// sample returns an invented value of the field's type; nil if the tests leave the field
// out. Values of real events are not used, because they can be confidential.
func (f starterField) sample() *yaml.Node {
	switch f.word {
	case "string":
		return scalar("some " + f.name)
	case "integer":
		return tagged("!!int", "1")
	case "number":
		return tagged("!!float", "1.5")
	case "boolean":
		return tagged("!!bool", "true")
	case "date":
		return tagged("!!timestamp", "2026-01-31T12:00:00Z")
	}
	return nil
}

func tagged(tag, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}
