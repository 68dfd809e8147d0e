package fold

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// DecimalDigits is the precision of a Decimal128. Its exponents are from
// bson.MinDecimal128Exp to bson.MaxDecimal128Exp.
const DecimalDigits = 34

var errDecimalTooLarge = errors.New("the result exceeds a Decimal128")

// Exact is an exact finite number: coefficient × 10^exponent.
type Exact struct {
	Coefficient *big.Int
	Exponent    int
}

// Finite returns the exact number; false for NaN and the infinities.
func (n Number) Finite() (Exact, bool) {
	switch n.Kind {
	case IntegerNumber:
		return Exact{Coefficient: big.NewInt(n.Int)}, true
	case DoubleNumber:
		return exactDouble(n.Double)
	default:
		c, e, err := n.Decimal128.BigInt()
		return Exact{Coefficient: c, Exponent: e}, err == nil
	}
}

// exactDouble converts a double to a decimal fraction. The fraction is always finite,
// because 2^-n is 5^n × 10^-n.
func exactDouble(f float64) (Exact, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Exact{}, false
	}
	const mantissaBits = 53
	fraction, exponent := math.Frexp(f)
	c := big.NewInt(int64(fraction * (1 << mantissaBits)))
	exponent -= mantissaBits
	if exponent >= 0 {
		return Exact{Coefficient: c.Lsh(c, uint(exponent))}, true
	}
	for c.Sign() != 0 && c.Bit(0) == 0 && exponent < 0 {
		c.Rsh(c, 1)
		exponent++
	}
	power := new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(-exponent)), nil)
	return Exact{Coefficient: c.Mul(c, power), Exponent: exponent}, true
}

// Decimal returns a finite number for arithmetic. A double is converted to its shortest
// decimal form, so 0.1 is exactly 0.1.
func (n Number) Decimal() (Exact, bool) {
	if n.Kind != DoubleNumber {
		return n.Finite()
	}
	d, err := bson.ParseDecimal128(strconv.FormatFloat(n.Double, 'g', -1, 64))
	if err != nil {
		return Exact{}, false
	}
	return Number{Kind: DecimalNumber, Decimal128: d}.Finite()
}

// Magnitude returns NaN or the infinity that a number is, and 0 for finite numbers.
func (n Number) Magnitude() float64 {
	switch {
	case n.Kind == DoubleNumber && (math.IsNaN(n.Double) || math.IsInf(n.Double, 0)):
		return n.Double
	case n.Kind == DecimalNumber && n.Decimal128.IsNaN():
		return math.NaN()
	case n.Kind == DecimalNumber && n.Decimal128.IsInf() != 0:
		return math.Inf(n.Decimal128.IsInf())
	}
	return 0
}

// compareDecimals is compareNumbers if at least one number is a decimal.
func compareDecimals(a, b Number) int {
	x, xFinite := a.Finite()
	y, yFinite := b.Finite()
	if !xFinite || !yFinite {
		return cmp.Compare(a.Magnitude(), b.Magnitude())
	}
	if c := cmp.Compare(x.Coefficient.Sign(), y.Coefficient.Sign()); c != 0 || x.Coefficient.Sign() == 0 {
		return c
	}
	// Numbers of different length are compared by length: with a common exponent, they
	// could have thousands of digits.
	if c := cmp.Compare(x.Length(), y.Length()); c != 0 {
		return c * x.Coefficient.Sign()
	}
	x, y = alike(x, y)
	return x.Coefficient.Cmp(y.Coefficient)
}

// Length returns the number of digits before the decimal point; 0 or less for numbers
// below 1. x must not be zero.
func (x Exact) Length() int { return digits(x.Coefficient) + x.Exponent }

func digits(n *big.Int) int { return len(new(big.Int).Abs(n).String()) }

// alike rewrites two numbers with the smaller of their exponents.
func alike(x, y Exact) (Exact, Exact) {
	if x.Exponent > y.Exponent {
		return x.Lowered(y.Exponent), y
	}
	return x, y.Lowered(x.Exponent)
}

// beside returns a number that can replace x in the sum and the difference with y: both round to the
// same Decimal128. If x is so small that it only decides how y is rounded, it becomes a digit behind
// y: with a common exponent, they could have thousands of digits.
func (x Exact) beside(y Exact) Exact {
	const apart = DecimalDigits + 3
	behind := y.Exponent - apart
	if y.Coefficient.Sign() == 0 || x.Exponent >= behind || x.Coefficient.Sign() != 0 && x.Length() > behind {
		return x
	}
	return Exact{Coefficient: big.NewInt(int64(x.Coefficient.Sign())), Exponent: behind}
}

// Lowered rewrites the number with a smaller exponent.
func (x Exact) Lowered(exponent int) Exact {
	if x.Exponent == exponent || x.Coefficient.Sign() == 0 {
		return Exact{Coefficient: x.Coefficient, Exponent: exponent}
	}
	return Exact{Coefficient: new(big.Int).Mul(x.Coefficient, tenTo(x.Exponent-exponent)), Exponent: exponent}
}

func tenTo(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// AddDecimals computes a + b exactly and rounds the result to a Decimal128. A double counts as its
// shortest decimal form.
func AddDecimals(a, b Number) (bson.Decimal128, error) {
	return addDecimals(a, b, (*big.Int).Add, func(x, y float64) float64 { return x + y })
}

// SubtractDecimals computes a - b as [AddDecimals] does.
func SubtractDecimals(a, b Number) (bson.Decimal128, error) {
	return addDecimals(a, b, (*big.Int).Sub, func(x, y float64) float64 { return x - y })
}

func addDecimals(a, b Number, add func(z, x, y *big.Int) *big.Int, infinite func(x, y float64) float64) (bson.Decimal128, error) {
	return computeDecimals(a, b, func(x, y Exact) Exact {
		x, y = alike(x.beside(y), y.beside(x))
		return Exact{Coefficient: add(new(big.Int), x.Coefficient, y.Coefficient), Exponent: x.Exponent}
	}, infinite)
}

// MultiplyDecimals computes a * b as [AddDecimals] does.
func MultiplyDecimals(a, b Number) (bson.Decimal128, error) {
	return computeDecimals(a, b, func(x, y Exact) Exact {
		return Exact{Coefficient: new(big.Int).Mul(x.Coefficient, y.Coefficient), Exponent: x.Exponent + y.Exponent}
	}, func(x, y float64) float64 { return x * y })
}

func computeDecimals(a, b Number, compute func(x, y Exact) Exact, infinite func(x, y float64) float64) (bson.Decimal128, error) {
	x, xFinite := a.Decimal()
	y, yFinite := b.Decimal()
	if xFinite && yFinite {
		return compute(x, y).Round()
	}
	// If one operand is NaN or infinite, only the sign of the other one matters.
	float := func(n Number, x Exact, finite bool) float64 {
		if finite {
			return float64(x.Coefficient.Sign())
		}
		return n.Magnitude()
	}
	return SpecialDecimal(infinite(float(a, x, xFinite), float(b, y, yFinite)))
}

// SpecialDecimal converts NaN, an infinity or zero.
func SpecialDecimal(f float64) (bson.Decimal128, error) {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		return d, fmt.Errorf("make a Decimal128 of %s: %w", text, err)
	}
	return d, nil
}

// Round returns the nearest Decimal128. If two are equally near, it returns the even one.
func (x Exact) Round() (bson.Decimal128, error) {
	excess := max(digits(x.Coefficient)-DecimalDigits, bson.MinDecimal128Exp-x.Exponent, 0)
	if excess > digits(x.Coefficient)+1 {
		x = Exact{Coefficient: new(big.Int), Exponent: x.Exponent + excess} // less than half of the least number
	} else if excess > 0 {
		x = Exact{Coefficient: divideRounded(x.Coefficient, tenTo(excess), halfEven), Exponent: x.Exponent + excess}
		if digits(x.Coefficient) > DecimalDigits {
			// Rounding has turned 9…9 into 10…0.
			x = Exact{Coefficient: x.Coefficient.Quo(x.Coefficient, big.NewInt(10)), Exponent: x.Exponent + 1}
		}
	}
	if x.Coefficient.Sign() == 0 {
		x.Exponent = min(x.Exponent, bson.MaxDecimal128Exp)
	}
	d, ok := bson.ParseDecimal128FromBigInt(x.Coefficient, x.Exponent)
	if !ok {
		return d, errDecimalTooLarge
	}
	return d, nil
}
