package fold

import (
	"math/big"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// drawDecimal draws a finite Decimal128, in many cases one at a limit.
func drawDecimal(t *rapid.T, name string) Number {
	digits := rapid.StringMatching(`-?[1-9][0-9]{0,33}|0`).Draw(t, name)
	c, _ := new(big.Int).SetString(digits, 10)
	exponent := rapid.OneOf(rapid.IntRange(-40, 40), rapid.IntRange(bson.MinDecimal128Exp, bson.MaxDecimal128Exp)).Draw(t, name+"Exponent")
	d, ok := bson.ParseDecimal128FromBigInt(c, exponent)
	if !ok {
		t.Fatalf("there is no %se%d", digits, exponent)
	}
	return Number{Kind: DecimalNumber, Decimal128: d}
}

// rational is the exact value of a number.
func rational(x Exact) *big.Rat {
	r := new(big.Rat).SetInt(x.Coefficient)
	power := new(big.Rat).SetInt(tenTo(max(x.Exponent, -x.Exponent)))
	if x.Exponent < 0 {
		return r.Quo(r, power)
	}
	return r.Mul(r, power)
}

// TestSumsOfDistantDecimalsAreExact compares sums and differences with those that are computed
// with a common exponent.
func TestSumsOfDistantDecimalsAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawDecimal(t, "a"), drawDecimal(t, "b")
		x, _ := a.Finite()
		y, _ := b.Finite()
		lowX, lowY := alike(x, y)
		for _, test := range []struct {
			compute func(a, b Number) (bson.Decimal128, error)
			of      func(z, x, y *big.Int) *big.Int
		}{{AddDecimals, (*big.Int).Add}, {SubtractDecimals, (*big.Int).Sub}} {
			got, err := test.compute(a, b)
			want, wantErr := Exact{test.of(new(big.Int), lowX.Coefficient, lowY.Coefficient), lowX.Exponent}.Round()
			if got != want || (err == nil) != (wantErr == nil) {
				t.Fatalf("%s and %s give %s (%v), want %s (%v)", a.Decimal128, b.Decimal128, got, err, want, wantErr)
			}
		}
	})
}

// TestSumWithZeroIsShort checks that 0 does not give a sum the digits of a common exponent.
func TestSumWithZeroIsShort(t *testing.T) {
	t.Parallel()
	large, err := bson.ParseDecimal128("1E+6144")
	if err != nil {
		t.Fatal(err)
	}
	sum := newExactSum()
	if err := sum.change(1, DecimalValue(large), IntegerValue(0)); err != nil || sum.exact.Coefficient.BitLen() > 128 {
		t.Errorf("the sum has %d bits, %v", sum.exact.Coefficient.BitLen(), err)
	}
}

// TestQuotientIsTheNearestDecimal checks that no other Decimal128 is nearer to the exact
// quotient, and that an exact quotient is found.
func TestQuotientIsTheNearestDecimal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawDecimal(t, "a"), drawDecimal(t, "b")
		x, _ := a.Finite()
		y, _ := b.Finite()
		d, err := DivideDecimals(a, b)
		switch {
		case y.Coefficient.Sign() == 0:
			if err == nil {
				t.Fatal("a number was divided by zero")
			}
			return
		case err != nil:
			if x.Length()-y.Length() < bson.MaxDecimal128Exp+DecimalDigits-1 {
				t.Fatalf("%s / %s: %v", a.Decimal128, b.Decimal128, err)
			}
			return
		}
		q, _ := Number{Kind: DecimalNumber, Decimal128: d}.Finite()
		want := new(big.Rat).Quo(rational(x), rational(y))
		// Half of the last of 34 digits, or of the least number.
		last := max(x.Length()-y.Length()+1-DecimalDigits, bson.MinDecimal128Exp)
		half := rational(Exact{big.NewInt(5), last - 1})
		if off := new(big.Rat).Sub(rational(q), want); off.Abs(off).Cmp(half) > 0 {
			t.Fatalf("%s / %s gives %s", a.Decimal128, b.Decimal128, d)
		}
	})
}

// TestRoundingsKeepTheirPromise compares each rounding with its definition.
func TestRoundingsKeepTheirPromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := big.NewInt(rapid.Int64().Draw(t, "coefficient"))
		x := Exact{Coefficient: c, Exponent: rapid.IntRange(-30, 5).Draw(t, "exponent")}
		places := rapid.IntRange(-6, 12).Draw(t, "places")
		rounding := rapid.SampledFrom(roundings).Draw(t, "rounding")
		exactly, unit := rational(x), rational(Exact{big.NewInt(1), -places})
		got := rational(x.Rounded(places, rounding))
		off := new(big.Rat).Sub(got, exactly)
		distance := new(big.Rat).Abs(off)
		twice := new(big.Rat).Add(distance, distance)
		multiple := new(big.Rat).Quo(got, unit)
		ok := multiple.IsInt() && distance.Cmp(unit) < 0
		switch rounding {
		case up:
			ok = ok && off.Sign()*exactly.Sign() >= 0
		case Down:
			ok = ok && off.Sign()*exactly.Sign() <= 0
		case Ceiling:
			ok = ok && off.Sign() >= 0
		case Floor:
			ok = ok && off.Sign() <= 0
		case HalfUp:
			ok = ok && (twice.Cmp(unit) < 0 || twice.Cmp(unit) == 0 && off.Sign()*exactly.Sign() > 0)
		case halfEven:
			ok = ok && (twice.Cmp(unit) < 0 || twice.Cmp(unit) == 0 && multiple.Num().Bit(0) == 0)
		}
		if !ok {
			t.Fatalf("%s at %d places, %s, gives %s", exactly.FloatString(32), places, rounding, got.FloatString(32))
		}
	})
}
