package changestream

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Spec is a parsed $changeStream stage.
type Spec struct {
	// DB and Coll are the watched namespace. Coll is empty for a whole database. Both are
	// empty for all databases.
	DB, Coll     string
	UpdateLookup bool
	Resume       *Token
	StartAt      *bson.Timestamp
}

// ParseSpec parses the stage of a stream that is opened on db and coll. coll is empty if
// the aggregation runs on the whole database.
func ParseSpec(db, coll string, stage bsonraw.Value) (Spec, error) {
	s := Spec{DB: db, Coll: coll}
	if stage.Type != bsoncore.TypeEmbeddedDocument {
		return s, mongoerr.New(50808, "$changeStream stage expects a document as argument.")
	}
	var resumes int
	var all bool
	for it := bsonraw.NewIter(stage.Data); it.Next(); {
		if err := s.option(string(it.Key()), it.Value(), &resumes, &all); err != nil {
			return s, err
		}
	}
	switch {
	case resumes > 1:
		return s, mongoerr.New(50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage")
	case resumes == 1 && s.StartAt != nil:
		return s, mongoerr.New(40674, "Only one type of resume option is allowed, but multiple were found.")
	case all && (db != "admin" || coll != ""):
		return s, mongoerr.New(mongoerr.InvalidOptions, "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no collection name; found %s.%s", db, coll)
	case all:
		s.DB = ""
	case db == "admin" || db == "local" || db == "config":
		return s, mongoerr.New(mongoerr.InvalidNamespace, "$changeStream may not be opened on the internal %s database", db)
	}
	return s, nil
}

func (s *Spec) option(key string, v bsonraw.Value, resumes *int, all *bool) error {
	switch key {
	case "fullDocument":
		switch mode := text(v); mode {
		case "default":
		case "updateLookup":
			s.UpdateLookup = true
		case "whenAvailable", "required":
			return mongoerr.Lacking("$changeStream with fullDocument %q", mode)
		default:
			return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '$changeStream.fullDocument' is not a valid value.", mode)
		}
	case "fullDocumentBeforeChange":
		if mode := text(v); mode != "off" {
			return mongoerr.Lacking("$changeStream with fullDocumentBeforeChange %q", mode)
		}
	case "resumeAfter", "startAfter":
		t, err := ParseToken(v)
		if err != nil {
			return err
		}
		if key == "resumeAfter" && t.Invalidate {
			return mongoerr.New(mongoerr.InvalidResumeToken, "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification.")
		}
		s.Resume = &t
		*resumes++
	case "startAtOperationTime":
		if v.Type != bsoncore.TypeTimestamp {
			return mongoerr.New(mongoerr.TypeMismatch, "BSON field '$changeStream.startAtOperationTime' is the wrong type '%s', expected type 'timestamp'", bsonraw.TypeName(v.Type))
		}
		t, i := v.Timestamp()
		s.StartAt = &bson.Timestamp{T: t, I: i}
	case "allChangesForCluster":
		*all = bsonraw.Truthy(v)
	case "showExpandedEvents", "showSystemEvents", "showMigrationEvents", "allowToRunOnConfigDB", "allowToRunOnSystemNS":
		if bsonraw.Truthy(v) {
			return mongoerr.Lacking("$changeStream with %s", key)
		}
	default:
		return mongoerr.New(40415, "BSON field '$changeStream.%s' is an unknown field.", key)
	}
	return nil
}

func text(v bsonraw.Value) string {
	if v.Type != bsoncore.TypeString {
		return ""
	}
	return string(bsonraw.Text(v))
}

// stage filters or transforms events.
type stage struct {
	match     *query.Matcher
	transform projection.Transform
}

// compileStages compiles the stages after $changeStream.
func compileStages(stages []bsonraw.Value, vars expr.Vars) ([]stage, error) {
	var out []stage
	for _, v := range stages {
		if v.Type != bsoncore.TypeEmbeddedDocument || bsonraw.Len(v.Data) != 1 {
			return nil, mongoerr.New(40323, "A pipeline stage specification object must contain exactly one field.")
		}
		it := bsonraw.NewIter(v.Data)
		it.Next()
		name := string(it.Key())
		switch name {
		case "$match":
			if it.Value().Type != bsoncore.TypeEmbeddedDocument {
				return nil, mongoerr.New(15959, "the match filter must be an expression in an object")
			}
			m, err := query.Compile(it.Value().Data, vars)
			if err != nil {
				return nil, err
			}
			out = append(out, stage{match: m})
			continue
		case "$redact", "$changeStreamSplitLargeEvent":
			return nil, mongoerr.Lacking("the stage %s in a change stream", name)
		}
		t, ok, err := projection.CompileStage(name, it.Value())
		switch {
		case err != nil:
			return nil, err
		case !ok && name == "$changeStream":
			return nil, mongoerr.New(40602, "$changeStream is only valid as the first stage in a pipeline")
		case !ok:
			return nil, mongoerr.New(mongoerr.IllegalOperation, "%s is not permitted in a $changeStream pipeline", name)
		}
		out = append(out, stage{transform: t})
	}
	return out, nil
}
