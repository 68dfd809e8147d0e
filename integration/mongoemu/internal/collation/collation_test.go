package collation_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

func parse(t *testing.T, spec string) (*collation.Collation, error) {
	t.Helper()
	var doc bson.Raw
	if err := bson.UnmarshalExtJSON([]byte(spec), false, &doc); err != nil {
		t.Fatal(err)
	}
	return collation.Parse(bsonraw.DocumentValue(doc))
}

func TestStrengths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spec, a, b string
		want       int
	}{
		{`{"locale": "en", "strength": 1}`, "Resume", "résumé", 0},
		{`{"locale": "en", "strength": 2}`, "Resume", "resume", 0},
		{`{"locale": "en", "strength": 2}`, "resume", "résumé", -1},
		{`{"locale": "en"}`, "resume", "Resume", -1},
		{`{"locale": "en"}`, "Resume", "sesame", -1},
		{`{"locale": "simple"}`, "Resume", "resume", -1},
		{`{"locale": "simple"}`, "Z", "a", -1},
		{`{"locale": "en"}`, "Z", "a", 1},
		{`{"locale": "en"}`, "a10", "a2", -1},
		{`{"locale": "en", "numericOrdering": true}`, "a10", "a2", 1},
		{`{"locale": "de"}`, "ö", "z", -1},
		{`{"locale": "sv"}`, "ö", "z", 1},
	} {
		c, err := parse(t, tt.spec)
		if err != nil {
			t.Fatalf("%s: %v", tt.spec, err)
		}
		if got := bsonraw.Compare(c.Value(bsonraw.StringValue(tt.a)), c.Value(bsonraw.StringValue(tt.b))); got != tt.want {
			t.Errorf("%s: %q against %q is %d, want %d", tt.spec, tt.a, tt.b, got, tt.want)
		}
	}
}

func TestInvalidSpecifications(t *testing.T) {
	t.Parallel()
	for spec, code := range map[string]mongoerr.Code{
		`{"strength": 2}`:                                 40414,
		`{"locale": "en", "strength": 6}`:                 51024,
		`{"locale": "en", "nope": 1}`:                     40415,
		`{"locale": "en", "version": "1.0"}`:              161,
		`{"locale": "simple", "strength": 2}`:             mongoerr.BadValue,
		`{"locale": "not a locale"}`:                      mongoerr.BadValue,
		`{"locale": 1}`:                                   mongoerr.TypeMismatch,
		`{"locale": "en", "strength": 5}`:                 mongoerr.NotImplemented,
		`{"locale": "en", "backwards": true}`:             mongoerr.NotImplemented,
		`{"locale": "en", "alternate": "shifted"}`:        mongoerr.NotImplemented,
		`{"locale": "en", "caseFirst": "upper"}`:          mongoerr.NotImplemented,
		`{"locale": "en", "strength": 1, "caseLevel": 1}`: mongoerr.NotImplemented,
	} {
		if c, err := parse(t, spec); !mongoerr.Has(err, code) {
			t.Errorf("%s: %v, %v", spec, c, err)
		}
	}
}

// Parsing the specification that a server shows yields an equal collation.
func TestDocRoundTrips(t *testing.T) {
	t.Parallel()
	c, err := parse(t, `{"locale": "en", "strength": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	again, err := collation.Parse(bsonraw.DocumentValue(c.Doc))
	if err != nil || !collation.Equal(c, again) {
		t.Errorf("%v, %v", again, err)
	}
	other, err := parse(t, `{"locale": "en", "strength": 1}`)
	if err != nil || collation.Equal(c, other) || collation.Equal(c, nil) || !collation.Equal(nil, nil) {
		t.Errorf("%v", err)
	}
}
