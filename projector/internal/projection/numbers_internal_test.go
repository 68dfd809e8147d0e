package projection

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// drawDecimal draws a finite Decimal128, in many cases one at a limit.
func drawDecimal(t *rapid.T, name string) number {
	digits := rapid.StringMatching(`-?[1-9][0-9]{0,33}|0`).Draw(t, name)
	c, _ := new(big.Int).SetString(digits, 10)
	exponent := rapid.OneOf(rapid.IntRange(-40, 40), rapid.IntRange(bson.MinDecimal128Exp, bson.MaxDecimal128Exp)).Draw(t, name+"Exponent")
	d, ok := bson.ParseDecimal128FromBigInt(c, exponent)
	if !ok {
		t.Fatalf("there is no %se%d", digits, exponent)
	}
	return number{kind: decimalNumber, d: d}
}

// rational is the exact value of a number.
func rational(x exact) *big.Rat {
	r := new(big.Rat).SetInt(x.coefficient)
	power := new(big.Rat).SetInt(tenTo(max(x.exponent, -x.exponent)))
	if x.exponent < 0 {
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
		x, _ := a.finite()
		y, _ := b.finite()
		lowX, lowY := alike(x, y)
		for _, test := range []struct {
			compute func(a, b number) (bson.Decimal128, error)
			of      func(z, x, y *big.Int) *big.Int
		}{{addDecimals, (*big.Int).Add}, {subtractDecimals, (*big.Int).Sub}} {
			got, err := test.compute(a, b)
			want, wantErr := exact{test.of(new(big.Int), lowX.coefficient, lowY.coefficient), lowX.exponent}.round()
			if got != want || (err == nil) != (wantErr == nil) {
				t.Fatalf("%s and %s give %s (%v), want %s (%v)", a.d, b.d, got, err, want, wantErr)
			}
		}
	})
}

// TestQuotientIsTheNearestDecimal checks that no other Decimal128 is nearer to the exact
// quotient, and that an exact quotient is found.
func TestQuotientIsTheNearestDecimal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawDecimal(t, "a"), drawDecimal(t, "b")
		x, _ := a.finite()
		y, _ := b.finite()
		d, err := divideDecimals(a, b)
		switch {
		case y.coefficient.Sign() == 0:
			if err == nil {
				t.Fatal("a number was divided by zero")
			}
			return
		case err != nil:
			if x.length()-y.length() < bson.MaxDecimal128Exp+decimalDigits-1 {
				t.Fatalf("%s / %s: %v", a.d, b.d, err)
			}
			return
		}
		q, _ := number{kind: decimalNumber, d: d}.finite()
		want := new(big.Rat).Quo(rational(x), rational(y))
		// Half of the last of 34 digits, or of the least number.
		last := max(x.length()-y.length()+1-decimalDigits, bson.MinDecimal128Exp)
		half := rational(exact{big.NewInt(5), last - 1})
		if off := new(big.Rat).Sub(rational(q), want); off.Abs(off).Cmp(half) > 0 {
			t.Fatalf("%s / %s gives %s", a.d, b.d, d)
		}
	})
}

// TestRoundingsKeepTheirPromise compares each rounding with its definition.
func TestRoundingsKeepTheirPromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := big.NewInt(rapid.Int64().Draw(t, "coefficient"))
		x := exact{coefficient: c, exponent: rapid.IntRange(-30, 5).Draw(t, "exponent")}
		places := rapid.IntRange(-6, 12).Draw(t, "places")
		rounding := rapid.SampledFrom(roundings).Draw(t, "rounding")
		exactly, unit := rational(x), rational(exact{big.NewInt(1), -places})
		got := rational(x.rounded(places, rounding))
		off := new(big.Rat).Sub(got, exactly)
		distance := new(big.Rat).Abs(off)
		twice := new(big.Rat).Add(distance, distance)
		multiple := new(big.Rat).Quo(got, unit)
		ok := multiple.IsInt() && distance.Cmp(unit) < 0
		switch rounding {
		case up:
			ok = ok && off.Sign()*exactly.Sign() >= 0
		case down:
			ok = ok && off.Sign()*exactly.Sign() <= 0
		case ceiling:
			ok = ok && off.Sign() >= 0
		case floor:
			ok = ok && off.Sign() <= 0
		case halfUp:
			ok = ok && (twice.Cmp(unit) < 0 || twice.Cmp(unit) == 0 && off.Sign()*exactly.Sign() > 0)
		case halfEven:
			ok = ok && (twice.Cmp(unit) < 0 || twice.Cmp(unit) == 0 && multiple.Num().Bit(0) == 0)
		}
		if !ok {
			t.Fatalf("%s at %d places, %s, gives %s", exactly.FloatString(32), places, rounding, got.FloatString(32))
		}
	})
}

// TestSumDoesNotDependOnTheOrder shuffles lists of numbers of every kind, and compares with the
// sum of the sums of parts for ints and decimals.
func TestSumDoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	value := map[string]func(t *rapid.T) ref.Val{
		"ints": func(t *rapid.T) ref.Val {
			return types.Int(rapid.Int64Range(math.MinInt64>>4, math.MaxInt64>>4).Draw(t, "int"))
		},
		"doubles": func(t *rapid.T) ref.Val { return types.Double(rapid.Float64().Draw(t, "double")) },
		"decimals": func(t *rapid.T) ref.Val {
			d, _ := bson.ParseDecimal128FromBigInt(big.NewInt(rapid.Int64().Draw(t, "coefficient")), rapid.IntRange(-6, 3).Draw(t, "exponent"))
			return opaque{decimalValue(d)}
		},
		"distant decimals": func(t *rapid.T) ref.Val { return opaque{decimalValue(drawDecimal(t, "decimal").d)} },
	}
	listOf := func(values ...ref.Val) ref.Val { return types.NewRefValList(types.DefaultTypeAdapter, values) }
	text := func(v ref.Val) string {
		if types.IsError(v) {
			return v.(*types.Err).String()
		}
		raw, err := encodeValue(v, nil)
		if err != nil {
			return err.Error()
		}
		return raw.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(sortedKeys(value)).Draw(t, "kind")
		draw := value[kind]
		if rapid.IntRange(0, 3).Draw(t, "mixed") == 0 {
			draw = func(t *rapid.T) ref.Val { return value[rapid.SampledFrom(sortedKeys(value)).Draw(t, "kind")](t) }
			kind = "mixed"
		}
		values := rapid.SliceOfN(rapid.Custom(draw), 0, 12).Draw(t, "values")
		want := text(sumOf(listOf(values...)))
		shuffled := slices.Clone(values)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := text(sumOf(listOf(shuffled...))); got != want {
			t.Fatalf("the sum is %s, and in another order %s", want, got)
		}
		if kind == "ints" || kind == "decimals" {
			at := rapid.IntRange(0, len(values)).Draw(t, "at")
			parts := listOf(sumOf(listOf(values[:at]...)), sumOf(listOf(values[at:]...)))
			if got := sumOf(parts); !sameValue(got, sumOf(listOf(values...)), nil) {
				t.Fatalf("the sum is %s, and in two parts %s", want, text(got))
			}
		}
	})
}
