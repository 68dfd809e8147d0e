package mongoemu_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// step is a command with the expected parts of its reply, in extended JSON; "<any>" and
// "<none>" are as in [lessons].
type step struct{ command, want string }

// follow runs steps in the database db, or in the one that a command names.
func follow(t *testing.T, c *rawClient, steps []step) {
	t.Helper()
	for _, s := range steps {
		s.run(t, c, "db")
	}
}

// run sends the command to a database, or to the one that it names, and compares the reply.
func (s step) run(t *testing.T, c *rawClient, db string) (got bson.D) {
	t.Helper()
	var command, want bson.D
	for text, into := range map[string]*bson.D{s.command: &command, s.want: &want} {
		if err := bson.UnmarshalExtJSON([]byte(text), false, into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if get(command, "$db") == nil {
		command = append(command, bson.E{Key: "$db", Value: db})
	}
	got = c.exchange(command)
	if diff := differs("", want, got); diff != "" {
		t.Errorf("%s: %s\ngot  %v", s.command, diff, got)
	}
	return got
}

const refusedDocument = `{"n": 0, "writeErrors": [{"index": 0, "code": 121, "errmsg": "Document failed validation"}]}`

func TestValidators(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	follow(t, dialRaw(t, s), []step{
		{`{"create": "c", "validator": {"n": {"$gte": 0}}}`, `{"ok": 1.0}`},
		{`{"listCollections": 1}`, `{"cursor": {"firstBatch": [{"name": "c", "options": {"validator": {"n": {"$gte": 0}}, "validationLevel": "<none>"}}]}}`},
		{`{"insert": "c", "documents": [{"_id": 1, "n": 1}]}`, `{"n": 1, "writeErrors": "<none>"}`},
		{`{"insert": "c", "documents": [{"_id": 2, "n": -1}]}`, refusedDocument},
		{`{"insert": "c", "documents": [{"_id": 2, "n": -1}]}`, `{"writeErrors": [{"errInfo": {"failingDocumentId": 2}}]}`},
		{`{"insert": "c", "documents": [{"_id": 3}, {"_id": 4, "n": 4}], "ordered": false}`, `{"n": 1, "writeErrors": [{"index": 0, "code": 121}]}`},
		{`{"insert": "c", "documents": [{"_id": 5, "n": -5}], "bypassDocumentValidation": true}`, `{"n": 1, "writeErrors": "<none>"}`},
		// A validator is checked before the unique indexes.
		{`{"insert": "c", "documents": [{"_id": 1, "n": -1}]}`, refusedDocument},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": -1}}}]}`, refusedDocument},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"n": "x"}}]}`, refusedDocument},
		{`{"update": "c", "updates": [{"q": {"_id": 6}, "u": {"$set": {"a": 1}}, "upsert": true}]}`, refusedDocument},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": -1}}}], "bypassDocumentValidation": true}`, `{"nModified": 1}`},
		// Strict: the next update of an invalid document must make it valid. An update that
		// changes nothing is not checked.
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": -1}}}]}`, `{"n": 1, "nModified": 0, "writeErrors": "<none>"}`},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]}`, refusedDocument},
		{`{"findAndModify": "c", "query": {"_id": 4}, "update": {"$set": {"n": -1}}}`, `{"ok": 0.0, "code": 121, "codeName": "DocumentValidationFailure", "errInfo": {"failingDocumentId": 4}}`},
		{`{"findAndModify": "c", "query": {"_id": 4}, "update": {"$set": {"n": -4}}, "bypassDocumentValidation": true}`, `{"ok": 1.0}`},
		// Moderate: only documents that are valid before an update are checked.
		{`{"collMod": "c", "validationLevel": "moderate"}`, `{"ok": 1.0}`},
		{`{"listCollections": 1}`, `{"cursor": {"firstBatch": [{"options": {"validator": {"n": {"$gte": 0}}, "validationLevel": "moderate", "validationAction": "error"}}]}}`},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]}`, `{"nModified": 1}`},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 1}}}]}`, `{"nModified": 1}`},
		{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": -1}}}]}`, refusedDocument},
		{`{"insert": "c", "documents": [{"_id": 7}]}`, refusedDocument},
		{`{"collMod": "c", "validationAction": "warn"}`, `{"ok": 1.0}`},
		{`{"insert": "c", "documents": [{"_id": 7}]}`, `{"n": 1, "writeErrors": "<none>"}`},
		{`{"collMod": "c", "validationAction": "error", "validationLevel": "off"}`, `{"ok": 1.0}`},
		{`{"insert": "c", "documents": [{"_id": 8}]}`, `{"n": 1, "writeErrors": "<none>"}`},
		{`{"collMod": "c", "validator": {}, "validationLevel": "strict"}`, `{"ok": 1.0}`},
		{`{"insert": "c", "documents": [{"_id": 9}]}`, `{"n": 1, "writeErrors": "<none>"}`},
		{`{"listCollections": 1}`, `{"cursor": {"firstBatch": [{"options": {"validator": "<none>", "validationLevel": "strict", "validationAction": "error"}}]}}`},

		{`{"create": "d", "validator": 1}`, `{"ok": 0.0, "code": 14}`},
		{`{"create": "d", "validator": {"$nope": 1}}`, `{"ok": 0.0, "code": 2}`},
		{`{"create": "d", "validationLevel": "loose"}`, `{"ok": 0.0, "code": 2}`},
		{`{"create": "d", "validator": {"a": 1}, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"collMod": "d", "validator": {}}`, `{"ok": 0.0, "code": 26, "codeName": "NamespaceNotFound"}`},
		{`{"collMod": "c", "validatorr": {}}`, `{"ok": 0.0, "code": 40415}`},
	})
}

func TestJSONSchema(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	c := dialRaw(t, s)
	for _, tt := range []struct{ schema, valid, invalid string }{
		{`{"required": ["a", "b"]}`, `{"a": 1, "b": 1}`, `{"a": 1}`},
		{`{"properties": {"a": {"bsonType": "string"}}}`, `{"b": 1}`, `{"a": 1}`},
		{`{"properties": {"a": {"bsonType": ["int", "null"]}}}`, `{"a": null}`, `{"a": "x"}`},
		{`{"properties": {"a": {"type": "number"}}}`, `{"a": 1.5}`, `{"a": true}`},
		{`{"properties": {"a": {"bsonType": "array", "items": {"bsonType": "int"}}}}`, `{"a": [1, 2]}`, `{"a": [1, "2"]}`},
		{`{"properties": {"a": {"bsonType": "int"}}}`, `{"a": 1}`, `{"a": [1]}`},
		{`{"properties": {"a": {"items": [{"bsonType": "int"}], "additionalItems": false}}}`, `{"a": [1]}`, `{"a": [1, 2]}`},
		{`{"properties": {"a": {"minItems": 1, "maxItems": 2, "uniqueItems": true}}}`, `{"a": [1, 2]}`, `{"a": [1, 1]}`},
		{`{"properties": {"a": {"enum": ["x", null]}}}`, `{"a": null}`, `{"a": "y"}`},
		{`{"properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}`, `{"a": 2}`, `{"a": 1}`},
		{`{"properties": {"a": {"maximum": 3, "multipleOf": 2}}}`, `{"a": 2}`, `{"a": 3}`},
		{`{"properties": {"a": {"minLength": 2, "maxLength": 3, "pattern": "^x"}}}`, `{"a": "xöö"}`, `{"a": "x"}`},
		{`{"properties": {"a": {"properties": {"b": {"bsonType": "bool"}}, "required": ["b"]}}}`, `{"a": {"b": true}}`, `{"a": {"b": 1}}`},
		{`{"properties": {"_id": {}, "a": {}}, "additionalProperties": false}`, `{"a": 1}`, `{"b": 1}`},
		{`{"patternProperties": {"^n": {"bsonType": "int"}}}`, `{"nn": 1}`, `{"nn": "x"}`},
		{`{"properties": {"_id": {}}, "patternProperties": {"^n": {}}, "additionalProperties": {"bsonType": "string"}}`, `{"n": 1, "s": "x"}`, `{"s": 1}`},
		{`{"minProperties": 2, "maxProperties": 2}`, `{"a": 1}`, `{"a": 1, "b": 1}`},
		{`{"dependencies": {"a": ["b"]}}`, `{"a": 1, "b": 1}`, `{"a": 1}`},
		{`{"dependencies": {"a": {"required": ["b"]}}}`, `{"c": 1}`, `{"a": 1}`},
		{`{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`, `{"a": 1}`, `{"a": 1, "b": 1}`},
		{`{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}`, `{"a": 1, "b": 1}`, `{"c": 1}`},
		{`{"allOf": [{"required": ["a"]}, {"not": {"required": ["b"]}}]}`, `{"a": 1}`, `{"a": 1, "b": 1}`},
	} {
		follow(t, c, []step{
			{`{"create": "c", "validator": {"$jsonSchema": ` + tt.schema + `}}`, `{"ok": 1.0}`},
			{`{"insert": "c", "documents": [` + tt.valid + `]}`, `{"n": 1, "writeErrors": "<none>"}`},
			{`{"insert": "c", "documents": [` + tt.invalid + `]}`, refusedDocument},
			{`{"find": "c", "filter": {"$jsonSchema": ` + tt.schema + `}, "projection": {"_id": 1}}`, `{"cursor": {"firstBatch": [{"_id": "<any>"}]}}`},
			{`{"drop": "c"}`, `{"ok": 1.0}`},
		})
	}
	for _, tt := range []struct{ schema, code string }{
		{`{"requird": ["a"]}`, `9`}, {`{"$ref": "x"}`, `9`}, {`{"required": []}`, `14`}, {`{"required": ["a", "a"]}`, `9`}, {`1`, `14`},
		{`{"properties": {"a": {"bsonType": "strng"}}}`, `2`}, {`{"properties": {"a": {"type": "integer"}}}`, `9`},
		{`{"exclusiveMinimum": true}`, `9`}, {`{"multipleOf": 0}`, `9`}, {`{"minLength": -1}`, `9`}, {`{"enum": []}`, `9`},
	} {
		follow(t, c, []step{{`{"create": "c", "validator": {"$jsonSchema": ` + tt.schema + `}}`, `{"ok": 0.0, "code": ` + tt.code + `}`}})
	}
}

// A document that a validator refuses aborts the transaction.
func TestValidatorsAbortTransactions(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{})
	if err := client.Database("db").RunCommand(t.Context(), d("create", "c", "validator", d("n", 1))).Err(); err != nil {
		t.Fatal(err)
	}
	c := client.Database("db").Collection("c")
	in, session := begin(t, client)
	must[*mongo.InsertOneResult](t)(c.InsertOne(in, d("_id", 1, "n", 1)))
	_, err := c.InsertOne(in, d("_id", 2))
	wantCode(t, err, 121, "Document failed validation")
	wantCode(t, session.CommitTransaction(t.Context()), 251, "")
	var we mongo.WriteException
	if _, err := c.InsertOne(t.Context(), d("_id", 2)); !errors.As(err, &we) || we.WriteErrors[0].Details == nil {
		t.Errorf("the driver sees no details: %v", err)
	}
}
