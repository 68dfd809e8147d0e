package wire

// Symbol is an AMQP symbol: ASCII text from a constrained domain, such as an
// error condition.
type Symbol string

// UUID is an AMQP uuid in network byte order.
type UUID [16]byte

// Timestamp is an AMQP timestamp: milliseconds since the Unix epoch.
type Timestamp int64

// Char is an AMQP char: one Unicode code point.
type Char uint32

// Raw is an encoded value, beginning with its constructor. Arrays and decimals stay
// encoded.
type Raw []byte

// Described is a value with a descriptor, which is a symbol or a ulong.
type Described struct {
	Descriptor any
	Value      any
}

// Pair is one entry of a [Map].
type Pair struct {
	Key   any
	Value any
}

// Map is an AMQP map in the order of its encoding. The zero value is empty.
type Map []Pair

// Get returns the value of a string or symbol key, and whether the key exists.
func (m Map) Get(key string) (any, bool) {
	for _, p := range m {
		switch k := p.Key.(type) {
		case string:
			if k == key {
				return p.Value, true
			}
		case Symbol:
			if string(k) == key {
				return p.Value, true
			}
		}
	}

	return nil, false
}

// Text returns v as text if it is a string or a symbol.
func Text(v any) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case Symbol:
		return string(s), true
	default:
		return "", false
	}
}

// Integer returns v as an int64 if it is of any integer type and fits.
func Integer(v any) (int64, bool) {
	switch n := v.(type) {
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case uint64:
		if n > 1<<63-1 {
			return 0, false
		}

		return int64(n), true
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	default:
		return 0, false
	}
}
