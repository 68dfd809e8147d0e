package authoring

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Bounds of the memory of an inference.
const (
	// maxInferredFields is the largest number of fields of a document. A document with
	// more is treated as a map whose keys are data.
	maxInferredFields = 100
	// maxInferredTypes bounds the event types.
	maxInferredTypes = 10_000
	// maxInferredDepth bounds the nesting of a schema. The parser of projections takes no
	// deeper one.
	maxInferredDepth = 32
)

// Inference collects the shapes of payloads and writes them as the section events of a
// file of projections. The zero value is ready to use. It is not safe for concurrent use.
type Inference struct {
	events map[string]*shape
	count  int
	// types are the event types of each aggregate type, in the order of their first
	// events.
	types map[string][]string
	// timeless are the event types with at least one event without a timestamp.
	timeless map[string]bool
	// leftOut are the event types that no file can name.
	leftOut map[string]bool
}

// shape summarises the values of one field.
type shape struct {
	// seen counts the values, and types counts them by type.
	seen  int
	types map[bson.Type]int
	// fields are the shapes of the documents' fields; nil once there are too many. open
	// is set then, and if the values nest too deep.
	fields map[string]*shape
	open   bool
	// elements is the shape of the arrays' elements.
	elements *shape
}

func newShape() *shape { return &shape{types: map[bson.Type]int{}, fields: map[string]*shape{}} }

// Add adds the payload of an event. A missing payload counts as an empty document. An event type
// with " | " or * is left out, because a file of projections cannot name it.
func (i *Inference) Add(ev *event.Event) {
	if i.events == nil {
		i.events, i.types, i.timeless, i.leftOut = map[string]*shape{}, map[string][]string{}, map[string]bool{}, map[string]bool{}
	}
	if strings.Contains(ev.EventType, " | ") || strings.Contains(ev.EventType, "*") {
		if len(i.leftOut) < maxInferredTypes {
			i.leftOut[ev.EventType] = true
		}
		return
	}
	s := i.events[ev.EventType]
	if s == nil {
		if len(i.events) >= maxInferredTypes {
			return
		}
		s = newShape()
		i.events[ev.EventType] = s
	}
	i.count++
	if known, ok := i.types[ev.AggregateType]; (ok || len(i.types) < maxInferredTypes) && !slices.Contains(known, ev.EventType) {
		i.types[ev.AggregateType] = append(known, ev.EventType)
	}
	i.timeless[ev.EventType] = i.timeless[ev.EventType] || !ev.HasTimestamp()
	payload := ev.Payload
	if payload.Type == 0 {
		payload.Type = bson.TypeEmbeddedDocument
	}
	s.add(payload, 1)
}

func (s *shape) add(v bson.RawValue, depth int) {
	s.seen++
	s.types[v.Type]++
	if depth >= maxInferredDepth {
		s.open = true
		return
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		s.addFields(v.Value, depth)
	case bson.TypeArray:
		if s.elements == nil {
			s.elements = newShape()
		}
		elements, _ := bson.RawArray(v.Value).Values()
		for _, element := range elements {
			s.elements.add(element, depth+1)
		}
	}
}

func (s *shape) addFields(doc bson.Raw, depth int) {
	if s.open {
		return
	}
	elements, _ := doc.Elements()
	for _, element := range elements {
		field := s.fields[element.Key()]
		if field == nil {
			if len(s.fields) >= maxInferredFields {
				s.open, s.fields = true, nil
				return
			}
			field = newShape()
			s.fields[element.Key()] = field
		}
		field.add(element.Value(), depth+1)
	}
}

// LeftOut returns the event types that were left out, sorted.
func (i *Inference) LeftOut() []string { return slices.Sorted(maps.Keys(i.leftOut)) }

// YAML writes the section events. It fails if nothing was added.
func (i *Inference) YAML() ([]byte, error) {
	if i.count == 0 {
		return nil, errors.New("infer the shapes of events: no event was read")
	}
	root := mapping()
	i.section(root)
	return encodeYAML(root)
}

// section adds the section events to a file.
func (i *Inference) section(root *yaml.Node) {
	types := mapping()
	for _, name := range slices.Sorted(maps.Keys(i.events)) {
		key := scalar(name)
		key.HeadComment = fmt.Sprintf("events seen: %d", i.events[name].seen)
		types.Content = append(types.Content, key, i.events[name].node())
	}
	key := scalar("events")
	key.HeadComment = fmt.Sprintf("Inferred from %d events. Events that were not among them may have other fields and types.", i.count)
	root.Content = append(root.Content, key, types)
}

func encodeYAML(root *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := cmp.Or(encoder.Encode(root), encoder.Close()); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// jsonTypes are the keywords and words for the types of values. For types that JSON
// Schema lacks, they are those of MongoDB.
var jsonTypes = map[bson.Type]struct{ keyword, word string }{
	bson.TypeString:           {"type", "string"},
	bson.TypeBoolean:          {"type", "boolean"},
	bson.TypeInt32:            {"type", "integer"},
	bson.TypeInt64:            {"type", "integer"},
	bson.TypeDouble:           {"type", "number"},
	bson.TypeEmbeddedDocument: {"type", "object"},
	bson.TypeArray:            {"type", "array"},
	bson.TypeDateTime:         {"bsonType", "date"},
	bson.TypeObjectID:         {"bsonType", "objectId"},
	bson.TypeDecimal128:       {"bsonType", "decimal"},
	bson.TypeBinary:           {"bsonType", "binData"},
}

// node returns the schema of a shape: an empty one if the values have several types.
func (s *shape) node() *yaml.Node {
	keyword, word := s.word()
	n := mapping()
	if word == "" {
		n.Style = yaml.FlowStyle
		return n
	}
	n.Content = append(n.Content, scalar(keyword))
	if s.types[bson.TypeNull] > 0 {
		null := scalar("null")
		null.Style = yaml.DoubleQuotedStyle
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{scalar(word), null}})
	} else {
		n.Content = append(n.Content, scalar(word))
	}
	switch {
	case word == "object" && !s.open:
		s.properties(n)
	case word == "array" && s.elements != nil && s.elements.seen > 0:
		n.Content = append(n.Content, scalar("items"), s.elements.node())
	default:
		n.Style = yaml.FlowStyle
	}
	return n
}

// properties adds the fields and the list of those that every document has. The list is there even
// if it is empty: without one, "projector check" would not warn about fields that may be absent.
func (s *shape) properties(n *yaml.Node) {
	fields := mapping()
	required := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		fields.Content = append(fields.Content, scalar(name), s.fields[name].node())
		if s.fields[name].seen == s.types[bson.TypeEmbeddedDocument] {
			required.Content = append(required.Content, scalar(name))
		}
	}
	n.Content = append(n.Content, scalar("properties"), fields)
	if len(fields.Content) == 0 {
		fields.Style = yaml.FlowStyle
		return
	}
	n.Content = append(n.Content, scalar("required"), required)
}

// word returns the schema's word for all types seen; empty if there is no single one.
// Numbers of several kinds are a number.
func (s *shape) word() (keyword, word string) {
	numbers := true
	for t := range s.types {
		if t == bson.TypeNull || t == bson.TypeUndefined {
			continue
		}
		next, ok := jsonTypes[t]
		if !ok {
			return "", ""
		}
		numbers = numbers && (t == bson.TypeInt32 || t == bson.TypeInt64 || t == bson.TypeDouble || t == bson.TypeDecimal128)
		switch {
		case word == "" || word == next.word:
			keyword, word = next.keyword, next.word
		case numbers:
			keyword, word = "type", "number"
		default:
			return "", ""
		}
	}
	return keyword, word
}

func mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: content}
}

// scalar returns a text node. The encoder quotes a text that would otherwise be read as
// another type.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}
