package testcase

import "maps"

// SchemaID is the address of the published JSON Schema of a test file.
const SchemaID = "https://raw.githubusercontent.com/penstock-cdc/penstock/main/docs/schema/projections_test.json"

// object is a part of a JSON Schema.
type object = map[string]any

// help describes each key, by the kind of mapping in which it is used.
var help = map[string]map[string]string{
	"file": {
		"projections": "The file or folder of the projections under test, or a list of them, as seen from this file. The default is the folder of this file.",
		"tests":       "The cases.",
	},
	"case": {
		"name":          "What the case shows, in a sentence.",
		"aggregateId":   "The aggregate of the first event, if that does not name one.",
		"aggregateType": "The type of aggregates whose events do not name one.",
		"steps":         "Several steps, each with what is given and what is expected after it, instead of one.",
		"given":         "The events, in the order in which they happen.",
		"expect":        "The documents that are expected, by projection and aggregate id. null means that there is none.",
		"expectParked":  "The aggregates that are expected to be parked, by projection and aggregate id. Any other that is parked is a failure.",
		"exact":         "Whether documents have no other fields than the expected ones, and these projections no other documents.",
	},
	"event": {
		"eventType":     "The type of the event.",
		"aggregateId":   "The aggregate. The default is that of the event before.",
		"aggregateType": "The type of the aggregate. The default is that of its earlier events, of the case, or of the projections that handle the event.",
		"eventId":       "The number of the event in its aggregate. The default is the one after the last.",
		"timestamp":     "When the event happens. The default is a second after the event before, from 2026-01-01T00:00:00Z.",
		"payload":       "What the event says.",
		"metadata":      "What is said about the event.",
	},
	"parked": {
		"eventId": "The event that parks the aggregate.",
		"reason":  "Why it does.",
		"error":   "A part of the error's text.",
	},
}

// JSONSchema is the JSON Schema (draft 7) of a test file, for editors. It is built from
// the tables that the parser uses. reasons are the allowed reasons of parked aggregates.
func JSONSchema(reasons []string) map[string]any {
	units := func(of object) object {
		return object{"type": "object", "additionalProperties": object{"type": "object", "additionalProperties": of}}
	}
	id := object{"type": []string{"string", "integer", "object"}}
	text := object{"type": []string{"string", "number", "boolean"}}
	some := object{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	eventID := object{"type": "integer", "minimum": 0}
	step := map[string]object{
		"given":        {"type": "array", "items": refTo("event")},
		"expect":       units(object{"type": []string{"object", "null"}}),
		"expectParked": units(refTo("parked")),
		"exact":        {"type": "boolean"},
	}
	whole := map[string]object{
		"name": some, "aggregateId": id, "aggregateType": text,
		"steps": {"type": "array", "minItems": 1, "items": refTo("step")},
	}
	maps.Copy(whole, step)
	expecting := []object{{"required": []string{"expect"}}, {"required": []string{"expectParked"}}}
	file := mapping("file", fileKeys, map[string]object{
		"projections": {"anyOf": []object{some, {"type": "array", "items": some}}},
		"tests":       {"type": "array", "minItems": 1, "items": refTo("case")},
	}, "tests")
	file["$schema"] = "http://json-schema.org/draft-07/schema#"
	file["$id"] = SchemaID
	file["title"] = "Tests of Penstock projections"
	file["description"] = "Cases: which events are given, and which documents are expected. projector test runs them."
	aCase := mapping("case", caseKeys, whole, "name")
	aCase["if"] = object{"required": []string{"steps"}}
	aCase["then"] = object{"propertyNames": object{"not": object{"enum": stepKeys}}}
	aCase["else"] = object{"anyOf": expecting}
	aStep := mapping("case", stepKeys, step)
	aStep["anyOf"] = expecting
	file["definitions"] = object{
		"case": aCase,
		"step": aStep,
		"event": mapping("event", eventKeys, map[string]object{
			"eventType": some, "aggregateId": id, "aggregateType": text, "eventId": eventID,
			"timestamp": {"type": []string{"string", "object"}},
		}, "eventType"),
		"parked": mapping("parked", parkedKeys, map[string]object{
			"eventId": eventID, "reason": {"enum": reasons}, "error": text,
		}),
	}
	return file
}

func refTo(definition string) object { return object{"$ref": "#/definitions/" + definition} }

// mapping returns the schema of a mapping with the given keys. A key without a schema may
// have any value.
func mapping(kind string, keys []string, schemas map[string]object, required ...string) object {
	all := object{}
	for _, key := range keys {
		described := object{"description": help[kind][key]}
		maps.Copy(described, schemas[key])
		all[key] = described
	}
	m := object{"type": "object", "additionalProperties": false, "properties": all}
	if len(required) > 0 {
		m["required"] = required
	}
	return m
}
