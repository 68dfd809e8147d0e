package wire

import "fmt"

// Error is an AMQP error: the reason why a peer refused a message or detached, ended or
// closed.
type Error struct {
	Condition   Symbol
	Description string
	Info        Map
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Condition, e.Description) }

// Errorf returns an error with a condition.
func Errorf(condition Symbol, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

func decodeError(d *Decoder) *Error {
	if d.Null() {
		return nil
	}

	if code := d.Descriptor(); code != CodeError {
		d.mismatch(code, "error")

		return nil
	}

	f := d.List()
	e := &Error{
		Condition:   Symbol(f.Next().Text()),
		Description: f.Next().Text(),
		Info:        f.Next().Map(),
	}

	if f.err != nil {
		d.fail(f.err)
	}

	return e
}

func (e *Error) append(b []byte) []byte {
	if e == nil {
		return AppendNull(b)
	}

	return composite(b, CodeError, 3, func(b []byte) []byte {
		b = AppendSymbol(b, e.Condition)
		b = appendText(b, e.Description)

		return appendProperties(b, e.Info)
	})
}

// State is the state of a delivery. The zero value means no state.
type State struct {
	Code              byte // CodeAccepted and so on, 0: none
	Error             *Error
	DeliveryFailed    bool
	UndeliverableHere bool
	Annotations       Map
}

// Accepted and Released are the states without further data.
var (
	Accepted = State{Code: CodeAccepted}
	Released = State{Code: CodeReleased}
)

// Rejected returns the state of a delivery that was refused with e.
func Rejected(e *Error) State { return State{Code: CodeRejected, Error: e} }

func decodeState(d *Decoder) State {
	if d.Null() {
		return State{}
	}

	s := State{Code: d.Descriptor()}
	f := d.List()

	switch s.Code {
	case CodeAccepted, CodeReleased, CodeReceived:
	case CodeRejected:
		s.Error = decodeError(f.Next())
	case CodeModified:
		s.DeliveryFailed = f.Next().Bool(false)
		s.UndeliverableHere = f.Next().Bool(false)
		s.Annotations = f.Next().Map()
	default:
		d.mismatch(s.Code, "delivery state")
	}

	if f.err != nil {
		d.fail(f.err)
	}

	return s
}

func (s State) append(b []byte) []byte {
	switch s.Code {
	case 0:
		return AppendNull(b)
	case CodeRejected:
		return composite(b, s.Code, 1, s.Error.append)
	case CodeModified:
		return composite(b, s.Code, 3, func(b []byte) []byte {
			b = AppendBool(b, s.DeliveryFailed)
			b = AppendBool(b, s.UndeliverableHere)

			return appendProperties(b, s.Annotations)
		})
	default:
		return append(AppendDescriptor(b, s.Code), codeList0)
	}
}

// Terminus is the source or target of a link, with the fields that the emulator uses.
type Terminus struct {
	Address     string
	Dynamic     bool
	Coordinator bool // the coordinator of transactions
	Filter      Map  // sources only
}

// decodeTerminus decodes a source, whose filter is the field filterAt, or a
// target.
func decodeTerminus(d *Decoder, filterAt int) *Terminus {
	if d.Null() {
		return nil
	}

	t := &Terminus{}

	switch code := d.Descriptor(); code {
	case CodeSource, CodeTarget:
	case CodeCoordinator:
		t.Coordinator = true
		d.Skip()

		return t
	default:
		d.mismatch(code, "terminus")

		return nil
	}

	f := d.List()
	t.Address, _ = f.Next().OptionalText()
	f.Next().Skip() // durable
	f.Next().Skip() // expiry-policy
	f.Next().Skip() // timeout
	t.Dynamic = f.Next().Bool(false)

	if filterAt > 0 {
		f.Next().Skip() // dynamic-node-properties
		f.Next().Skip() // distribution-mode
		t.Filter = f.Next().Map()
	}

	if f.err != nil {
		d.fail(f.err)
	}

	return t
}

func (t *Terminus) append(b []byte, code byte) []byte {
	switch {
	case t == nil:
		return AppendNull(b)
	case t.Coordinator:
		return append(AppendDescriptor(b, CodeCoordinator), codeList0)
	}

	count := 5
	if code == CodeSource {
		count = 8
	}

	return composite(b, code, count, func(b []byte) []byte {
		b = AppendString(b, t.Address)
		b = append(b, codeNull, codeNull, codeNull)
		b = AppendBool(b, t.Dynamic)

		if code == CodeSource {
			b = append(b, codeNull, codeNull)
			b = appendProperties(b, t.Filter)
		}

		return b
	})
}
