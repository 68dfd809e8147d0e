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

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// drawNumber draws a finite Decimal128, in many cases one at a limit.
func drawNumber(t *rapid.T, name string) fold.Number {
	digits := rapid.StringMatching(`-?[1-9][0-9]{0,33}|0`).Draw(t, name)
	c, _ := new(big.Int).SetString(digits, 10)
	exponent := rapid.OneOf(rapid.IntRange(-40, 40), rapid.IntRange(bson.MinDecimal128Exp, bson.MaxDecimal128Exp)).Draw(t, name+"Exponent")
	d, ok := bson.ParseDecimal128FromBigInt(c, exponent)
	if !ok {
		t.Fatalf("there is no %se%d", digits, exponent)
	}
	return fold.Number{Kind: fold.DecimalNumber, Decimal128: d}
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
			return opaque{fold.DecimalValue(d)}
		},
		"distant decimals": func(t *rapid.T) ref.Val { return opaque{fold.DecimalValue(drawNumber(t, "decimal").Decimal128)} },
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
