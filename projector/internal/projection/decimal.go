package projection

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// decimalDigits is the precision of a Decimal128. Its exponents are from
// bson.MinDecimal128Exp to bson.MaxDecimal128Exp.
const decimalDigits = 34

var errDecimalTooLarge = errors.New("the result exceeds a Decimal128")

// exact is an exact finite number: coefficient × 10^exponent.
type exact struct {
	coefficient *big.Int
	exponent    int
}

// finite returns the exact number; false for NaN and the infinities.
func (n number) finite() (exact, bool) {
	switch n.kind {
	case integerNumber:
		return exact{coefficient: big.NewInt(n.i)}, true
	case doubleNumber:
		return exactDouble(n.f)
	default:
		c, e, err := n.d.BigInt()
		return exact{coefficient: c, exponent: e}, err == nil
	}
}

// exactDouble converts a double to a decimal fraction. The fraction is always finite,
// because 2^-n is 5^n × 10^-n.
func exactDouble(f float64) (exact, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return exact{}, false
	}
	const mantissaBits = 53
	fraction, exponent := math.Frexp(f)
	c := big.NewInt(int64(fraction * (1 << mantissaBits)))
	exponent -= mantissaBits
	if exponent >= 0 {
		return exact{coefficient: c.Lsh(c, uint(exponent))}, true
	}
	for c.Sign() != 0 && c.Bit(0) == 0 && exponent < 0 {
		c.Rsh(c, 1)
		exponent++
	}
	power := new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(-exponent)), nil)
	return exact{coefficient: c.Mul(c, power), exponent: exponent}, true
}

// decimal returns a finite number for arithmetic. A double is converted to its shortest
// decimal form, so 0.1 is exactly 0.1.
func (n number) decimal() (exact, bool) {
	if n.kind != doubleNumber {
		return n.finite()
	}
	d, err := bson.ParseDecimal128(strconv.FormatFloat(n.f, 'g', -1, 64))
	if err != nil {
		return exact{}, false
	}
	return number{kind: decimalNumber, d: d}.finite()
}

// magnitude returns NaN or the infinity that a number is, and 0 for finite numbers.
func (n number) magnitude() float64 {
	switch {
	case n.kind == doubleNumber && (math.IsNaN(n.f) || math.IsInf(n.f, 0)):
		return n.f
	case n.kind == decimalNumber && n.d.IsNaN():
		return math.NaN()
	case n.kind == decimalNumber && n.d.IsInf() != 0:
		return math.Inf(n.d.IsInf())
	}
	return 0
}

// compareDecimals is compareNumbers if at least one number is a decimal.
func compareDecimals(a, b number) int {
	x, xFinite := a.finite()
	y, yFinite := b.finite()
	if !xFinite || !yFinite {
		return cmp.Compare(a.magnitude(), b.magnitude())
	}
	if c := cmp.Compare(x.coefficient.Sign(), y.coefficient.Sign()); c != 0 || x.coefficient.Sign() == 0 {
		return c
	}
	// Numbers of different length are compared by length: with a common exponent, they
	// could have thousands of digits.
	if c := cmp.Compare(x.length(), y.length()); c != 0 {
		return c * x.coefficient.Sign()
	}
	x, y = alike(x, y)
	return x.coefficient.Cmp(y.coefficient)
}

// length returns the number of digits before the decimal point; 0 or less for numbers
// below 1. x must not be zero.
func (x exact) length() int { return digits(x.coefficient) + x.exponent }

func digits(n *big.Int) int { return len(new(big.Int).Abs(n).String()) }

// alike rewrites two numbers with the smaller of their exponents.
func alike(x, y exact) (exact, exact) {
	if x.exponent > y.exponent {
		return x.lowered(y.exponent), y
	}
	return x, y.lowered(x.exponent)
}

// near returns two numbers whose sum and difference round to the same Decimal128s as those of x
// and y. If one is so small that it only decides how the other is rounded, it becomes a digit
// behind that one: with a common exponent, they could have thousands of digits.
func near(x, y exact) (exact, exact) {
	return x.beside(y), y.beside(x)
}

func (x exact) beside(y exact) exact {
	const apart = decimalDigits + 3
	behind := y.exponent - apart
	if y.coefficient.Sign() == 0 || x.exponent >= behind || x.coefficient.Sign() != 0 && x.length() > behind {
		return x
	}
	return exact{coefficient: big.NewInt(int64(x.coefficient.Sign())), exponent: behind}
}

func (x exact) lowered(exponent int) exact {
	if x.exponent == exponent || x.coefficient.Sign() == 0 {
		return exact{coefficient: x.coefficient, exponent: exponent}
	}
	return exact{coefficient: new(big.Int).Mul(x.coefficient, tenTo(x.exponent-exponent)), exponent: exponent}
}

func tenTo(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// addDecimals, subtractDecimals and multiplyDecimals compute exactly and round the result
// to a Decimal128. A double counts as its shortest decimal form.
func addDecimals(a, b number) (bson.Decimal128, error) {
	return computeDecimals(a, b, func(x, y exact) exact {
		x, y = alike(near(x, y))
		return exact{coefficient: new(big.Int).Add(x.coefficient, y.coefficient), exponent: x.exponent}
	}, func(x, y float64) float64 { return x + y })
}

func subtractDecimals(a, b number) (bson.Decimal128, error) {
	return computeDecimals(a, b, func(x, y exact) exact {
		x, y = alike(near(x, y))
		return exact{coefficient: new(big.Int).Sub(x.coefficient, y.coefficient), exponent: x.exponent}
	}, func(x, y float64) float64 { return x - y })
}

func multiplyDecimals(a, b number) (bson.Decimal128, error) {
	return computeDecimals(a, b, func(x, y exact) exact {
		return exact{coefficient: new(big.Int).Mul(x.coefficient, y.coefficient), exponent: x.exponent + y.exponent}
	}, func(x, y float64) float64 { return x * y })
}

func computeDecimals(a, b number, compute func(x, y exact) exact, infinite func(x, y float64) float64) (bson.Decimal128, error) {
	x, xFinite := a.decimal()
	y, yFinite := b.decimal()
	if xFinite && yFinite {
		return compute(x, y).round()
	}
	// If one operand is NaN or infinite, only the sign of the other one matters.
	float := func(n number, x exact, finite bool) float64 {
		if finite {
			return float64(x.coefficient.Sign())
		}
		return n.magnitude()
	}
	return specialDecimal(infinite(float(a, x, xFinite), float(b, y, yFinite)))
}

// specialDecimal converts NaN, an infinity or zero.
func specialDecimal(f float64) (bson.Decimal128, error) {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		return d, fmt.Errorf("make a Decimal128 of %s: %w", text, err)
	}
	return d, nil
}

// round returns the nearest Decimal128. If two are equally near, it returns the even one.
func (x exact) round() (bson.Decimal128, error) {
	excess := max(digits(x.coefficient)-decimalDigits, bson.MinDecimal128Exp-x.exponent, 0)
	if excess > digits(x.coefficient)+1 {
		x = exact{coefficient: new(big.Int), exponent: x.exponent + excess} // less than half of the least number
	} else if excess > 0 {
		x = exact{coefficient: divideRounded(x.coefficient, tenTo(excess), halfEven), exponent: x.exponent + excess}
		if digits(x.coefficient) > decimalDigits {
			// Rounding has turned 9…9 into 10…0.
			x = exact{coefficient: x.coefficient.Quo(x.coefficient, big.NewInt(10)), exponent: x.exponent + 1}
		}
	}
	if x.coefficient.Sign() == 0 {
		x.exponent = min(x.exponent, bson.MaxDecimal128Exp)
	}
	d, ok := bson.ParseDecimal128FromBigInt(x.coefficient, x.exponent)
	if !ok {
		return d, errDecimalTooLarge
	}
	return d, nil
}
