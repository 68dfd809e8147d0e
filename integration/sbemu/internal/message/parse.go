package message

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// ErrMalformed means that bytes are not a valid message.
var ErrMalformed = errors.New("malformed message")

// ErrProperties means that application properties exceed the service's limits: 32 kB each
// and 64 kB together. Binary properties are refused at any size. The service's
// documentation calls this a bug that will not be fixed
// (ServiceBusMessage.ApplicationProperties).
var ErrProperties = errors.New("application properties over the limit")

const (
	maxProperty   = 32 << 10
	maxProperties = 64 << 10
)

// ErrBatchCount means that a batch has more messages than the limit.
var ErrBatchCount = errors.New("too many messages in a batch")

// Parse reads an encoded message. It keeps b: the caller must not change it. newID
// returns the id for a message that has none.
func Parse(b []byte, newID func() string) (*Message, error) {
	m := &Message{Size: len(b)}
	d := wire.NewDecoder(b)
	last := byte(0)

	for d.Len() > 0 {
		section := d.Rest()
		start := len(b) - len(section)
		code := d.Descriptor()

		if code < last || code == last && code != wire.CodeData && code != wire.CodeSequence ||
			isBody(last) && isBody(code) && code != last {
			return nil, fmt.Errorf("%w: section 0x%02x after 0x%02x", ErrMalformed, code, last)
		}

		last = code

		if err := m.section(&d, code); err != nil {
			return nil, err
		}

		if d.Err() != nil {
			return nil, fmt.Errorf("%w: section 0x%02x: %w", ErrMalformed, code, d.Err())
		}

		section = section[: len(section)-d.Len() : len(section)-d.Len()]

		switch code {
		case wire.CodeProperties:
			m.properties = section
		case wire.CodeApplicationProperties:
			m.applicationRaw = section
		case wire.CodeData, wire.CodeSequence, wire.CodeValue, wire.CodeFooter:
			if m.body == nil {
				m.body = b[start:]
			}
		}
	}

	if m.ID == "" {
		m.assignID(newID())
	}

	return m, nil
}

func isBody(code byte) bool { return code >= wire.CodeData && code <= wire.CodeValue }

// section reads one section whose descriptor was consumed.
func (m *Message) section(d *wire.Decoder, code byte) error {
	switch code {
	case wire.CodeHeader:
		m.header(d)
	case wire.CodeDeliveryAnnotations:
		m.delivery = keep(d, ownedDelivery, nil)
	case wire.CodeMessageAnnotations:
		var err error
		m.annotations = keep(d, ownedAnnotation, func(key string, v *wire.Decoder) {
			if e := m.annotation(key, v); e != nil && err == nil {
				err = e
			}
		})

		return err
	case wire.CodeProperties:
		m.readProperties(d)
	case wire.CodeApplicationProperties:
		checkApplicationProperties(d)
	case wire.CodeData:
		d.Binary()
	case wire.CodeSequence:
		whole := *d
		d.Skip()
		whole.List()
		if whole.Err() != nil {
			d.Fail(whole.Err())
		}
	case wire.CodeValue:
		d.Skip()
	case wire.CodeFooter:
		keep(d, ownedNone, nil)
	default:
		if d.Err() == nil {
			return fmt.Errorf("%w: unknown section 0x%02x", ErrMalformed, code)
		}
	}

	return nil
}

func (m *Message) header(d *wire.Decoder) {
	f := d.List()
	m.durable = f.Next().Bool(false)

	if p := f.Next(); !p.Null() {
		m.priority, m.hasPriority = p.Ubyte(0), true
	}

	m.TTL = time.Duration(f.Next().Uint(0)) * time.Millisecond
	f.Next().Bool(false)
	f.Next().Uint(0)
	adopt(d, &f)
}

// adopt makes d fail if reading its fields failed.
func adopt(d *wire.Decoder, f *wire.Fields) {
	f.Done()

	if f.Err() != nil {
		d.Fail(f.Err())
	}
}

// keep returns the entries of a map that the broker does not own, and calls see for each.
func keep(d *wire.Decoder, owned func(key string) bool, see func(key string, v *wire.Decoder)) entries {
	body, n := d.MapBody()
	in := wire.NewDecoder(body)
	out := entries{raw: body, count: n}
	copied := false

	for i := 0; i < n && in.Err() == nil; i += 2 {
		entry := in.Rest()
		name := in.Value()
		key, ok := wire.Text(name)

		if _, number := wire.Integer(name); !ok && !number && in.Err() == nil {
			in.Fail(fmt.Errorf("%w: %T for a key", wire.ErrType, name))
		}

		value := in
		in.Skip()

		if in.Err() != nil {
			break
		}

		entry = entry[:len(entry)-in.Len()]

		switch {
		case ok && owned(key):
			if !copied {
				out.raw = append([]byte{}, body[:len(body)-len(entry)-in.Len()]...)
				copied = true
			}

			out.count -= 2
		default:
			if copied {
				out.raw = append(out.raw, entry...)
			}

			if ok && see != nil {
				see(key, &value)
			}
		}
	}

	if in.Err() == nil && in.Len() > 0 {
		in.Fail(wire.ErrSize)
	}

	if in.Err() != nil {
		d.Fail(in.Err())
	}

	return out
}

func ownedNone(string) bool { return false }

func ownedDelivery(key string) bool { return key == annotationLockToken }

func ownedAnnotation(key string) bool {
	switch key {
	case annotationSequenceNumber, annotationEnqueuedTime, annotationLockedUntil,
		annotationEnqueuedSequenceNumber, annotationMessageState:
		return true
	default:
		return false
	}
}

// annotation reads one of the sender's annotations. SDKs rely on the types of
// annotations, so other types are refused here.
func (m *Message) annotation(key string, v *wire.Decoder) error {
	switch key {
	case annotationPartitionKey:
		m.PartitionKey, m.HasPartitionKey = v.OptionalText()
	case annotationViaPartitionKey, annotationDeadLetter:
		v.OptionalText()
	case annotationScheduled:
		at, ok := v.Value().(wire.Timestamp)
		if !ok {
			return fmt.Errorf("%w: %s is not a timestamp", ErrMalformed, key)
		}

		m.ScheduledAt = time.UnixMilli(int64(at))
	}

	if v.Err() != nil {
		return fmt.Errorf("%w: annotation %s: %w", ErrMalformed, key, v.Err())
	}

	return nil
}

// readProperties reads the properties section (part 3, section 3.2.4).
func (m *Message) readProperties(d *wire.Decoder) {
	f := d.List()
	m.ID = idText(f.Next())
	f.Next().Binary() // user-id
	f.Next().Text()   // to
	f.Next().Text()   // subject
	f.Next().Text()   // reply-to
	idText(f.Next())  // correlation-id
	f.Next().Text()   // content-type
	f.Next().Text()   // content-encoding
	f.Next().Skip()   // absolute-expiry-time
	f.Next().Skip()   // creation-time
	m.SessionID, m.HasSession = f.Next().OptionalText()
	f.Next().Uint(0) // group-sequence
	f.Next().Text()  // reply-to-group-id
	adopt(d, &f)
}

// idText returns a message id or correlation id as text.
func idText(d *wire.Decoder) string {
	switch id := d.Value().(type) {
	case nil:
		return ""
	case string:
		return id
	case uint64:
		return strconv.FormatUint(id, 10)
	case wire.UUID:
		return hex.EncodeToString(id[:])
	case []byte:
		return hex.EncodeToString(id)
	default:
		if d.Err() == nil {
			d.Fail(fmt.Errorf("%w %T for an id", wire.ErrType, id))
		}

		return ""
	}
}

// checkApplicationProperties reads the application properties, whose values are
// of simple types (part 3, section 3.2.5).
func checkApplicationProperties(d *wire.Decoder) {
	body, n := d.MapBody()
	in := wire.NewDecoder(body)

	if len(body) > maxProperties {
		in.Fail(ErrProperties)
	}

	for ; n > 0 && in.Err() == nil; n -= 2 {
		if in.Null() {
			in.Fail(fmt.Errorf("%w: null for a key", wire.ErrType))
		}

		in.Text()

		if in.Compound() {
			in.Fail(fmt.Errorf("%w: a list, map or array for an application property", wire.ErrType))
		}

		before, binary := in.Len(), in.BinaryNext()
		in.Skip()

		if in.Err() == nil && (binary || before-in.Len() > maxProperty) {
			in.Fail(ErrProperties)
		}
	}

	if in.Err() == nil && in.Len() > 0 {
		in.Fail(wire.ErrSize)
	}

	if in.Err() != nil {
		d.Fail(in.Err())
	}
}

// assignID assigns an id to a message without one, as the service does.
func (m *Message) assignID(id string) {
	m.ID, m.AssignedID = id, true

	b, at := wire.BeginList(wire.AppendDescriptor(nil, wire.CodeProperties))
	b = wire.AppendString(b, id)
	count := 1

	if len(m.properties) > 0 {
		d := wire.NewDecoder(m.properties)
		d.Descriptor()

		f := d.List()
		f.Next().Skip()

		count += f.Left()
		b = append(b, f.Rest()...)
	}

	b = wire.EndCompound(b, at, count)
	m.Size += len(b) - len(m.properties)
	m.properties = b
}

// Batch returns the messages of a batch: its data sections, each of which is an encoded
// message. The bytes of each message are copied, so that no message keeps the whole batch
// in memory.
func Batch(b []byte, limit int, newID func() string) ([]*Message, error) {
	d := wire.NewDecoder(b)

	var out []*Message

	for d.Len() > 0 {
		code := d.Descriptor()
		if code != wire.CodeData {
			d.Skip()

			if d.Err() != nil {
				return nil, fmt.Errorf("%w: batch: %w", ErrMalformed, d.Err())
			}

			continue
		}

		data := d.Binary()
		if d.Err() != nil {
			return nil, fmt.Errorf("%w: batch: %w", ErrMalformed, d.Err())
		}

		if len(out) == limit {
			return nil, ErrBatchCount
		}

		m, err := Parse(append([]byte(nil), data...), newID)
		if err != nil {
			return nil, err
		}

		out = append(out, m)
	}

	return out, nil
}
