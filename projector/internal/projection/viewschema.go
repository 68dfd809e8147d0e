package projection

import "github.com/penstock-cdc/penstock/projector/internal/fold"

// viewHelp describes each key of a view.
var viewHelp = map[string]string{
	"name":       "Names the view in its watermarks, metrics and parked list. Never change it.",
	"collection": "The collection of the documents, each with the result of key as its _id.",
	"from":       "The sources: each folds the events of one type of aggregate to parts, and says in which documents a part is.",
	"as":         "The field of a document that has the parts in it, each below its aggregate's id. Without as, a document has only the totals.",
	"totals":     "Totals of all parts of a document. Those of the view are for all its sources.",
}

// viewSourceHelp describes each key of a source of a view.
var viewSourceHelp = map[string]string{
	"aggregateType": "The aggregates of the source. Each has at most one part.",
	"key":           "An expression over part, and over element if there is each: the _id of the document that has the part. null is no document.",
	"each":          "An expression over part that gives a list: each element contributes to the document of its own key.",
	"as":            "As as of the view, for this source.",
	"keep":          "fields: the part's fields are those of the document, which has one part of this source.",
	"on":            "What each type of event does to the aggregate's part, as in a projection. state is the part.",
	"compute":       "Fields that are computed from the part after each event that changes it, and their expressions over state.",
	"totals":        "Totals that only the parts of this source count in.",
}

// totalHelp describes each key of a total.
var totalHelp = map[string]string{
	string(fold.TotalSum):   "Adds up whole numbers or Decimal128s.",
	string(fold.TotalCount): "true counts the parts, or the elements of each.",
	string(fold.TotalMin):   "The least value. When a part with it goes, all parts of the document are read.",
	string(fold.TotalMax):   "The greatest value. When a part with it goes, all parts of the document are read.",
	string(fold.TotalSet):   "The different values, sorted; a list counts with its elements. When a value goes, all parts of the document are read.",
	"where":                 "An expression of type bool over part and element: only parts for which it is true count.",
}

func viewSchema() object {
	return object{
		"type": "object", "additionalProperties": false,
		"required": []string{"name", "collection", "from"},
		"properties": properties(viewKeys, viewHelp, map[string]object{
			"name": nameSchema(), "collection": collectionSchema(), "as": refTo("documentField"), "totals": refTo("totals"),
			"from": {"type": "array", "minItems": 1, "items": refTo("source")},
		}),
	}
}

func viewSourceSchema() object {
	return object{
		"type": "object", "additionalProperties": false,
		"required": []string{"aggregateType", "key", "on"},
		"properties": properties(viewSourceKeys, viewSourceHelp, map[string]object{
			"aggregateType": textSchema(), "key": refTo("expression"), "each": refTo("expression"), "as": refTo("documentField"),
			"keep": {"const": keepFields}, "on": onSchema(), "compute": refTo("fields"), "totals": refTo("totals"),
		}),
		"not": object{"required": []string{"as", "keep"}},
	}
}

func totalSchema() object {
	schemas := map[string]object{"where": refTo("expression")}
	var one []object
	for _, kind := range fold.TotalKinds {
		schemas[string(kind)] = refTo("expression")
		one = append(one, object{"required": []string{string(kind)}})
	}
	schemas[string(fold.TotalCount)] = object{"const": true}
	return object{
		"type": "object", "additionalProperties": false, "oneOf": one,
		"properties": properties(totalKeys, totalHelp, schemas),
	}
}
