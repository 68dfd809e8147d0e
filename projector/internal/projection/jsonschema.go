package projection

import (
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// SchemaID is the address of the published JSON Schema of a file of projections.
const SchemaID = "https://raw.githubusercontent.com/penstock-cdc/penstock/main/docs/schema/projections.json"

// pathPattern matches the path of a field. Expressions in brackets are not checked.
const pathPattern = "^" + namePattern + `(\.` + namePattern + `|\[[\s\S]*\])*$`

const namePattern = "([^.$\\[\\]()`][^.\\[\\]()`]*|`[^.$`][^.`]*`)"

// object is a part of a JSON Schema.
type object = map[string]any

// wordHelp describes each word of a handler, for editors.
var wordHelp = map[string]string{
	wordWhen:   "An expression of type bool. The event acts if it is true; without it, the event always acts.",
	"set":      "Fields and the values to store.",
	"unset":    "A field to remove, or a list of them.",
	"inc":      "Fields and the numbers to add. An absent field counts as 0.",
	"push":     "Fields and the values to append to their arrays. An absent field counts as an empty array. {value: …, sort: …, keep: …} also sorts or shortens the array.",
	"pull":     "Fields and the values to remove from their arrays, wherever an element equals the value.",
	"addToSet": "Fields and the values to append to their arrays, unless an element equals the value.",
	"min":      "Fields and the values to store where they are less than the present ones.",
	"max":      "Fields and the values to store where they are greater than the present ones.",
	wordDelete: "true removes the document. It stands alone, or with when.",
}

// keyHelp describes each key of a projection.
var keyHelp = map[string]string{
	"name":          "Names the projection in its watermarks, metrics and parked list. Never change it.",
	"collection":    "The collection of the read models: one document an aggregate, its _id the aggregate's id.",
	"aggregateType": "Other aggregates do not concern the projection. Leave it out to mean all.",
	"compute":       "Fields that are computed from the document after each event that changes it, and their expressions over state.",
	"on":            "What each type of event does. A key can name several types: A | B. A type that is not listed changes nothing.",
}

// rootHelp describes each section of a file.
var rootHelp = map[string]string{
	"projections": "The projections of this file.",
	"views":       "The views of this file: documents made of many aggregates.",
	"upcasts":     "What events of earlier versions become before the rules see them: one event each, with a new payload, a new type or both.",
	"snapshots":   "Event types with which the history of an aggregate may begin, because its earlier events were archived.",
	"events":      "The JSON Schema of each event type's payload: names and types that expressions are checked against. projector infer writes it.",
}

// engineFields are the fields that no projection writes.
var engineFields = []string{model.FieldID, model.FieldLastEventID, model.FieldLastUpdatedAt, model.FieldLastGeneration}

// JSONSchema returns the JSON Schema (draft 7) of a file of projections, for editors. It
// is built from the tables that the parser uses. It accepts every file that the parser
// accepts, and more, because it does not check expressions.
func JSONSchema() map[string]any {
	return object{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"$id":         SchemaID,
		"title":       "Penstock projections",
		"description": "Read models, declared: what each event does to a document.",
		"type":        "object", "additionalProperties": false,
		"properties": properties(rootKeys, rootHelp, map[string]object{
			"projections": {"type": "array", "items": refTo("projection")},
			"views":       {"type": "array", "items": refTo("view")},
			"events":      {"type": "object", "additionalProperties": refTo("payload")},
			"snapshots":   {"type": "array", "items": textSchema()},
			"upcasts": {"type": "object", "additionalProperties": object{
				"anyOf": []object{refTo("upcast"), {"type": "array", "items": refTo("upcast")}},
			}},
		}),
		"definitions": object{
			"projection": object{
				"type": "object", "additionalProperties": false,
				"required": []string{"name", "collection", "on"},
				"properties": properties(declarationKeys, keyHelp, map[string]object{
					"name": nameSchema(), "collection": collectionSchema(), "aggregateType": textSchema(),
					"compute": refTo("fields"), "on": onSchema(),
				}),
			},
			"view":   viewSchema(),
			"source": viewSourceSchema(),
			"totals": object{"type": "object", "minProperties": 1, "propertyNames": refTo("documentField"), "additionalProperties": refTo("total")},
			"total":  totalSchema(),
			"documentField": object{
				"type": []string{"string", "number", "boolean"}, "pattern": "^[^.$\\[\\]()`][^.\\[\\]()`]*$",
				"not": object{"enum": append(slices.Clone(engineFields), model.FieldParts)},
			},
			"rules": object{
				"description": "A rule, or a list of rules: the first one whose when is true acts.",
				"anyOf":       []object{refTo("handler"), {"type": "array", "minItems": 1, "items": refTo("handler")}},
			},
			"handler":    handlerSchema(),
			"expression": object{"description": "A CEL expression over payload, state, event and the event's fields. A text stands in quotes of its own: \"'paid'\".", "type": []string{"string", "number", "boolean"}, "minLength": 1},
			"fields": object{
				"type": "object", "minProperties": 1, "propertyNames": refTo("path"), "additionalProperties": refTo("expression"),
			},
			"pushed": pushSchema(),
			"upcast": object{
				"type": "object", "additionalProperties": false,
				"anyOf": []object{{"required": []string{upcastPayload}}, {"required": []string{upcastType}}},
				"properties": properties(upcastKeys, upcastHelp, map[string]object{
					wordWhen: refTo("expression"), upcastPayload: refTo("expression"), upcastType: {"type": "string", "minLength": 1},
				}),
			},
			"path": object{
				// A field may have a number as its name.
				"type": []string{"string", "number", "boolean"}, "pattern": pathPattern,
				"not": object{"type": "string", "pattern": `^(` + strings.Join(engineFields, "|") + `)([.\[]|$)`},
			},
			"payload": payloadSchema(),
		},
	}
}

func nameSchema() object {
	return object{"type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": maxName}
}

func collectionSchema() object {
	return object{"type": "string", "minLength": 1, "not": object{"enum": slices.Compact(slices.Sorted(slices.Values(reserved)))}}
}

func textSchema() object { return object{"type": "string", "minLength": 1} }

func onSchema() object {
	return object{
		"type": "object", "minProperties": 1,
		"propertyNames": object{"minLength": 1}, "additionalProperties": refTo("rules"),
	}
}

func refTo(definition string) object { return object{"$ref": "#/definitions/" + definition} }

// properties adds the help text of each key to its schema. The tests fail for a key
// without a help text or a schema.
func properties(keys []string, help map[string]string, schemas map[string]object) object {
	all := object{}
	for _, key := range keys {
		described := object{"description": help[key]}
		if s, isRef := schemas[key]["$ref"]; isRef {
			// Draft 7 ignores the keywords beside a $ref.
			described["allOf"] = []object{{"$ref": s}}
		} else {
			maps.Copy(described, schemas[key])
		}
		all[key] = described
	}
	return all
}

func handlerSchema() object {
	schemas := map[string]object{
		wordWhen:        refTo("expression"),
		string(opUnset): {"anyOf": []object{refTo("path"), {"type": "array", "minItems": 1, "items": refTo("path")}}},
		wordDelete:      {"const": true},
	}
	for _, op := range operators {
		schemas[string(op)] = refTo("fields")
	}
	schemas[string(opPush)] = object{
		"type": "object", "minProperties": 1, "propertyNames": refTo("path"),
		"additionalProperties": object{"anyOf": []object{refTo("expression"), refTo("pushed")}},
	}
	return object{
		"type": "object", "additionalProperties": false, "minProperties": 1,
		"properties": properties(vocabulary, wordHelp, schemas),
		"allOf": []object{
			{"if": object{"required": []string{wordDelete}}, "then": object{"propertyNames": object{"enum": []string{wordWhen, wordDelete}}}},
			{"if": object{"required": []string{wordWhen}}, "then": object{"minProperties": 2}},
		},
	}
}

// pushHelp describes each key of push in its long form.
var pushHelp = map[string]string{
	pushValue: "The value to append.",
	pushSort:  "Sorts the array: a field of its elements with 1 or -1, such as {points: -1}; or 1 or -1 for elements that are no documents.",
	pushKeep:  "How many elements remain: 10 keeps the first ten, -10 the last ten.",
}

func pushSchema() object {
	direction := object{"enum": []any{1, -1, "1", "-1"}}
	return object{
		"type": "object", "additionalProperties": false, "required": []string{pushValue}, "minProperties": 2,
		"properties": properties(pushKeys, pushHelp, map[string]object{
			pushValue: refTo("expression"),
			pushSort:  {"anyOf": []object{direction, {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": direction}}},
			pushKeep:  {"type": "integer", "not": object{"const": 0}},
		}),
	}
}

// upcastHelp describes each key of an upcast.
var upcastHelp = map[string]string{
	wordWhen:      "An expression of type bool over the event. The upcast is for the events for which it is true; without it, for all.",
	upcastPayload: "An expression that gives the new payload, which is a document.",
	upcastType:    "The new event type. Its upcasts follow.",
}

// payloadHelp describes each keyword of a payload's schema.
var payloadHelp = map[string]string{
	"type":                 "The type of the value, or a list of types.",
	"bsonType":             "The type of the value, for types that JSON does not have.",
	"properties":           "The fields of the document. It has no others, unless additionalProperties is true.",
	"required":             "Fields that are always there.",
	"items":                "The schema of the elements of an array.",
	"additionalProperties": "Whether a document may have fields that properties does not list.",
	"title":                "A name, for people.",
	"description":          "What the value means, for people.",
	"$comment":             "A note, for people.",
}

func payloadSchema() object {
	types := func(keyword string) object {
		var words []any
		for _, word := range sortedKeys(valueTypes[keyword]) {
			words = append(words, word)
		}
		// YAML reads an unquoted null as null instead of a text.
		words = append(words, nil)
		return object{"anyOf": []object{{"enum": words}, {"type": "array", "items": object{"enum": words}}}}
	}
	return object{
		"type": "object", "additionalProperties": false,
		"properties": properties(slices.Concat(schemaKeywords, annotations), payloadHelp, map[string]object{
			"type":       types("type"),
			"bsonType":   types("bsonType"),
			"properties": {"type": "object", "additionalProperties": refTo("payload")},
			"items":      refTo("payload"),
		}),
		// The parser reads required and additionalProperties only beside properties.
		"if": object{"required": []string{"properties"}},
		"then": object{"properties": object{
			"required": object{"type": "array"}, "additionalProperties": object{"type": "boolean"},
		}},
		"not": object{"required": []string{"type", "bsonType"}},
	}
}
