package fold

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The roundings of math.round and math.divide.
const (
	// HalfUp rounds to the nearest, and away from zero if two are equally near.
	HalfUp = "half-up"
	// halfEven rounds to the nearest, and to the even one if two are equally near.
	halfEven = "half-even"
	// up rounds away from zero, down towards zero.
	up   = "up"
	Down = "down"
	// Ceiling rounds towards positive infinity, floor towards negative infinity.
	Ceiling = "ceiling"
	Floor   = "floor"
)

var roundings = []string{HalfUp, halfEven, up, Down, Ceiling, Floor}

// divideRounded divides n by a positive number.
func divideRounded(n, by *big.Int, rounding string) *big.Int {
	quotient, rest := new(big.Int).QuoRem(n, by, new(big.Int))
	if rest.Sign() == 0 {
		return quotient
	}
	c := rest.Abs(rest).Lsh(rest, 1).Cmp(by)
	away := false
	switch rounding {
	case HalfUp:
		away = c >= 0
	case halfEven:
		away = c > 0 || c == 0 && quotient.Bit(0) == 1
	case up:
		away = true
	case Ceiling:
		away = n.Sign() > 0
	case Floor:
		away = n.Sign() < 0
	}
	if away {
		quotient.Add(quotient, big.NewInt(int64(n.Sign())))
	}
	return quotient
}

// Rounded rounds to a number of digits after the point; a negative number rounds to tens,
// hundreds and so on.
func (x Exact) Rounded(places int, rounding string) Exact {
	dropped := -places - x.Exponent
	if dropped <= 0 {
		return x.Lowered(-places)
	}
	if n := digits(x.Coefficient); dropped > n+1 {
		// Only the sign matters. 10^dropped could have thousands of digits.
		x, dropped = Exact{Coefficient: big.NewInt(int64(x.Coefficient.Sign()))}, 2
	}
	return Exact{Coefficient: divideRounded(x.Coefficient, tenTo(dropped), rounding), Exponent: -places}
}

// CheckRounding refuses an unknown rounding.
func CheckRounding(name string) error {
	if !slices.Contains(roundings, name) {
		return fmt.Errorf("there is no rounding %.20q: name one of %s", name, strings.Join(roundings, ", "))
	}
	return nil
}

// ErrDigits says that a result would have too many digits.
var ErrDigits = errors.New("the rounded number has more than the 34 digits of a Decimal128: round to fewer places")

// ErrDivisionByZero is the error of a division by zero.
var ErrDivisionByZero = errors.New("division by zero")

// Quantized returns the Decimal128 with exactly so many digits after the point.
func (x Exact) Quantized(places int, rounding string) (bson.Decimal128, error) {
	if x.Coefficient.Sign() != 0 && x.Length()+places > DecimalDigits {
		return bson.Decimal128{}, ErrDigits
	}
	x = x.Rounded(places, rounding)
	if x.Exponent > 0 && x.Coefficient.Sign() != 0 && x.Length() <= DecimalDigits {
		x = x.Lowered(0)
	}
	if digits(x.Coefficient) > DecimalDigits {
		return bson.Decimal128{}, ErrDigits
	}
	return x.Round()
}

// Over divides by y, which is not zero. The quotient has more places than shift after the
// first digit of x. If the quotient is not exact, its last digit is 1, so that it is rounded
// like the exact one.
func (x Exact) Over(y Exact, shift int) Exact {
	n := new(big.Int).Mul(x.Coefficient, tenTo(shift))
	quotient, rest := n.QuoRem(n, y.Coefficient, new(big.Int))
	exponent := x.Exponent - y.Exponent - shift
	if rest.Sign() != 0 {
		sign := int64(x.Coefficient.Sign() * y.Coefficient.Sign())
		quotient.Mul(quotient, big.NewInt(10)).Add(quotient, big.NewInt(sign))
		exponent--
	}
	return Exact{Coefficient: quotient, Exponent: exponent}
}

// DivideDecimals divides with 34 digits. An exact quotient has as few zeros at its end as the
// operands.
func DivideDecimals(a, b Number) (bson.Decimal128, error) {
	y, finite := b.Decimal()
	if finite && y.Coefficient.Sign() == 0 {
		return bson.Decimal128{}, ErrDivisionByZero
	}
	return computeDecimals(a, b, func(x, y Exact) Exact {
		shift := max(0, DecimalDigits+2+digits(y.Coefficient)-digits(x.Coefficient))
		quotient, least := x.Over(y, shift), x.Exponent-y.Exponent
		if quotient.Coefficient.Sign() == 0 {
			quotient.Exponent = least
		}
		return quotient.shortened(least)
	}, func(x, y float64) float64 { return x / y })
}

// shortened removes trailing zeros, and raises the exponent at most to most. It divides once: a sum
// of distant numbers can have thousands of zeros.
func (x Exact) shortened(most int) Exact {
	text := x.Coefficient.String()
	zeros := min(len(text)-len(strings.TrimRight(text, "0")), most-x.Exponent)
	if zeros <= 0 {
		return x
	}
	return Exact{new(big.Int).Quo(x.Coefficient, tenTo(zeros)), x.Exponent + zeros}
}

// maxDecimalText bounds the text of a number, which may have zeros at both ends.
const maxDecimalText = 200

var decimalText = regexp.MustCompile(`^([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?$`)

// ParseDecimal converts a text to a Decimal128 of 34 digits.
func ParseDecimal(text string) (bson.Decimal128, error) {
	if len(text) <= maxDecimalText {
		if m := decimalText.FindStringSubmatch(text); m != nil {
			c, _ := new(big.Int).SetString(m[1]+m[2]+m[3], 10)
			exponent, _ := strconv.Atoi(m[4])
			return Exact{Coefficient: c, Exponent: exponent - len(m[3])}.Round()
		}
	}
	return bson.Decimal128{}, fmt.Errorf("%.40q is not a decimal number: write decimal('12.50')", text)
}
