package bsonraw_test

import (
	"bytes"
	"cmp"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

func value(v any) bsonraw.Value {
	doc := bsonraw.MustMarshal(bson.D{{Key: "v", Value: v}})
	out, _ := bsonraw.Lookup(doc, "v")
	return out
}

// MongoDB documents this order of types. Numbers of all types compare by value.
func TestCompareOrder(t *testing.T) {
	t.Parallel()
	dec := func(s string) bson.Decimal128 {
		d, err := bson.ParseDecimal128(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ascending := []any{
		bson.MinKey{}, bson.Undefined{}, nil,
		int64(-1 << 62), -1.5, int32(-1), dec("-0.5"), 0.0, dec("0.1"), 0.5, int32(1), dec("1.25"), 1.5, int64(2),
		int64(1<<53 + 1), dec("9007199254740993.5"),
		"", "a", "a\x00", "ab", "b",
		bson.D{}, bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}},
		bson.D{{Key: "a", Value: 2}}, bson.D{{Key: "b", Value: 1}}, bson.D{{Key: "a", Value: "x"}},
		bson.A{}, bson.A{1}, bson.A{1, 1}, bson.A{2},
		bson.Binary{Data: []byte{9}}, bson.Binary{Subtype: 1, Data: []byte{1}}, bson.Binary{Data: []byte{1, 1}},
		bson.ObjectID{1}, bson.ObjectID{2}, false, true,
		bson.DateTime(-1), bson.DateTime(1), bson.Timestamp{T: 1, I: 5}, bson.Timestamp{T: 2},
		bson.Regex{Pattern: "a"}, bson.Regex{Pattern: "b"}, bson.MaxKey{},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := bsonraw.Compare(value(a), value(b)), cmp.Compare(i, j); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestNumbersOfAllTypesAreEqual(t *testing.T) {
	t.Parallel()
	d, err := bson.ParseDecimal128("1.0")
	if err != nil {
		t.Fatal(err)
	}
	ones := []any{int32(1), int64(1), 1.0, d}
	for _, a := range ones {
		for _, b := range ones {
			x, y := key(t, value(a)), key(t, value(b))
			if !bsonraw.Equal(value(a), value(b)) || !bytes.Equal(x, y) {
				t.Errorf("%T and %T differ: %x, %x", a, b, x, y)
			}
		}
	}
}

func key(t interface{ Fatal(...any) }, v bsonraw.Value) []byte {
	k, err := bsonraw.AppendKey(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Keys sort as their values do, and no key is a prefix of another.
func TestKeysSortLikeTheirValues(t *testing.T) {
	t.Parallel()
	values := rapid.OneOf(bsongen.Value(2), rapid.Map(bsongen.Decimal(), func(d bson.Decimal128) any { return d }))
	rapid.Check(t, func(t *rapid.T) {
		a, b := value(values.Draw(t, "a")), value(values.Draw(t, "b"))
		want := bsonraw.Compare(a, b)
		x, y := key(t, a), key(t, b)
		if got := bytes.Compare(x, y); got != want {
			t.Fatalf("keys of %s and %s compare %d, values %d\n%x\n%x", bsonraw.Format(a), bsonraw.Format(b), got, want, x, y)
		}
		if want != 0 && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Fatalf("one key of %s and %s is a prefix of the other", bsonraw.Format(a), bsonraw.Format(b))
		}
		bsonraw.Invert(x)
		bsonraw.Invert(y)
		if got := bytes.Compare(x, y); got != -want {
			t.Fatalf("inverted keys compare %d, want %d", got, -want)
		}
	})
}

func TestDriverReadsWhatTheBuilderWrites(t *testing.T) {
	t.Parallel()
	doc := bsonraw.NewBuilder(0).Int32("i", 1).Int64("l", 2).Double("d", 3).String("s", "x").Bool("b", true).Null("n").
		Start("o").Int32("x", 1).StartArray("a").Int32("0", 1).Int32("1", 2).End().End().Strings("ss", "p", "q").Bytes()
	var got bson.D
	if err := bson.Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	want := `{"i":{"$numberInt":"1"},"l":{"$numberLong":"2"},"d":{"$numberDouble":"3.0"},"s":"x","b":true,"n":null,` +
		`"o":{"x":{"$numberInt":"1"},"a":[{"$numberInt":"1"},{"$numberInt":"2"}]},"ss":["p","q"]}`
	if s := got.String(); s != want {
		t.Errorf("got %s\nwant %s", s, want)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	v := value(bson.D{{Key: "a", Value: "x"}, {Key: "n", Value: bson.A{int32(1), 2.0, nil}}, {Key: "e", Value: bson.D{}}, {Key: "o", Value: bson.ObjectID{11: 1}}})
	if got, want := bsonraw.Format(v), `{ a: "x", n: [ 1, 2.0, null ], e: {}, o: ObjectId('000000000000000000000001') }`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	good := bsonraw.MustMarshal(bson.D{
		{Key: "s", Value: "x"}, {Key: "d", Value: bson.D{{Key: "a", Value: bson.A{1, "y"}}}}, {Key: "b", Value: bson.Binary{Data: []byte{1}}},
		{Key: "r", Value: bson.Regex{Pattern: "p", Options: "i"}}, {Key: "c", Value: bson.CodeWithScope{Code: "f", Scope: bson.D{}}},
	})
	if err := bsonraw.Validate(good); err != nil {
		t.Fatal(err)
	}
	for cut := range good {
		if bsonraw.Validate(good[:cut]) == nil {
			t.Errorf("accepted the first %d bytes", cut)
		}
	}
	deep := []byte{5, 0, 0, 0, 0}
	for range bsonraw.MaxDepth + 2 {
		deep = bsonraw.NewBuilder(0).Document("d", deep).Bytes()
	}
	if bsonraw.Validate(deep) == nil {
		t.Error("accepted a document nested too deep")
	}
}

// Documents that Validate accepts can be iterated, compared and encoded without a panic.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(bsonraw.MustMarshal(bson.D{{Key: "a", Value: bson.A{1, "x", bson.D{{Key: "b", Value: nil}}}}})))
	f.Add([]byte(bsonraw.MustMarshal(bson.D{{Key: "r", Value: bson.Regex{Pattern: "p"}}, {Key: "j", Value: bson.JavaScript("f")}})))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bsonraw.Validate(data) != nil {
			return
		}
		v := bsonraw.Value{Type: bsoncore.TypeEmbeddedDocument, Data: data}
		if bsonraw.Compare(v, v) != 0 {
			t.Error("a document is not equal to itself")
		}
		_, _ = bsonraw.AppendKey(nil, v)
		_ = bsonraw.Format(v)
	})
}
