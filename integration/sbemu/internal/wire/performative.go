package wire

import "fmt"

// Performative is the body of a frame: *[Open], *[Begin], *[Attach], *[Flow],
// *[Transfer], *[Disposition], *[Detach], *[End] or *[Close], and in SASL
// frames *[SASLMechanisms], *[SASLInit] or *[SASLOutcome].
type Performative interface {
	// Append appends the performative to b, without a frame around it.
	Append(b []byte) []byte

	decode(f *Fields)
}

// Open is the first frame of a connection.
type Open struct {
	ContainerID  string
	Hostname     string
	MaxFrameSize uint32
	ChannelMax   uint16
	IdleTimeout  uint32 // milliseconds, 0: none
	Properties   Map
}

// Begin begins a session on a channel.
type Begin struct {
	RemoteChannel  uint16
	Reply          bool // an answer: RemoteChannel is set
	NextOutgoingID uint32
	IncomingWindow uint32
	OutgoingWindow uint32
	HandleMax      uint32
}

// Attach attaches a link to a session.
type Attach struct {
	Name                 string
	Handle               uint32
	Role                 Role
	SndSettleMode        uint8
	RcvSettleMode        uint8
	Source               *Terminus
	Target               *Terminus
	InitialDeliveryCount uint32
	MaxMessageSize       uint64
	Properties           Map
}

// Flow updates windows and, with a handle, a link's credit.
type Flow struct {
	NextIncomingID    uint32
	HasNextIncomingID bool
	IncomingWindow    uint32
	NextOutgoingID    uint32
	OutgoingWindow    uint32
	Handle            uint32
	HasHandle         bool
	DeliveryCount     uint32
	HasDeliveryCount  bool
	LinkCredit        uint32
	HasLinkCredit     bool
	Drain             bool
	Echo              bool
}

// Transfer carries a message or a part of a message.
type Transfer struct {
	Handle        uint32
	DeliveryID    uint32
	HasDeliveryID bool
	DeliveryTag   []byte
	MessageFormat uint32
	Settled       bool
	More          bool
	State         State
	Aborted       bool
	Payload       []byte
}

// Disposition reports the state of a range of deliveries.
type Disposition struct {
	Role    Role
	First   uint32
	Last    uint32
	Settled bool
	State   State
}

// Detach detaches a link.
type Detach struct {
	Handle uint32
	Closed bool
	Error  *Error
}

// End ends a session.
type End struct{ Error *Error }

// Close closes a connection.
type Close struct{ Error *Error }

// Role is the end of a link that the sender of a frame has.
type Role bool

// The two roles.
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// Settlement modes of senders and receivers.
const (
	SenderUnsettled = 0
	SenderSettled   = 1
	SenderMixed     = 2
	ReceiverFirst   = 0
	ReceiverSecond  = 1
)

// Decode decodes the body of an AMQP or SASL frame. Binary fields and the
// payload of a transfer share its memory.
func Decode(body []byte) (Performative, error) {
	d := NewDecoder(body)
	code := d.Descriptor()

	var p Performative

	switch code {
	case CodeTransfer:
		p = &Transfer{}
	case CodeDisposition:
		p = &Disposition{}
	case CodeFlow:
		p = &Flow{}
	case CodeAttach:
		p = &Attach{}
	case CodeDetach:
		p = &Detach{}
	case CodeBegin:
		p = &Begin{}
	case CodeEnd:
		p = &End{}
	case CodeOpen:
		p = &Open{}
	case CodeClose:
		p = &Close{}
	case CodeSASLMechanisms:
		p = &SASLMechanisms{}
	case CodeSASLInit:
		p = &SASLInit{}
	case CodeSASLOutcome:
		p = &SASLOutcome{}
	default:
		if d.err == nil {
			d.fail(fmt.Errorf("%w: performative 0x%02x", ErrType, code))
		}

		return nil, d.err
	}

	f := d.List()
	p.decode(&f)

	if d.err == nil {
		d.err = f.err
	}

	if d.err != nil {
		return nil, fmt.Errorf("decode performative 0x%02x: %w", code, d.err)
	}

	if t, ok := p.(*Transfer); ok {
		t.Payload = d.Rest()
	}

	return p, nil
}

func (p *Open) decode(f *Fields) {
	p.ContainerID = f.Next().Text()
	p.Hostname = f.Next().Text()
	p.MaxFrameSize = f.Next().Uint(1<<32 - 1)
	p.ChannelMax = f.Next().Ushort(1<<16 - 1)
	p.IdleTimeout = f.Next().Uint(0)

	for range 4 { // locales and capabilities
		f.Next().Skip()
	}

	p.Properties = f.Next().Map()
}

func (p *Begin) decode(f *Fields) {
	d := f.Next()
	if !d.Null() {
		p.RemoteChannel, p.Reply = d.Ushort(0), true
	}

	p.NextOutgoingID = f.Next().Uint(0)
	p.IncomingWindow = f.Next().Uint(0)
	p.OutgoingWindow = f.Next().Uint(0)
	p.HandleMax = f.Next().Uint(1<<32 - 1)
}

func (p *Attach) decode(f *Fields) {
	p.Name = f.Next().Text()
	p.Handle = f.Next().Uint(0)
	p.Role = Role(f.Next().Bool(false))
	p.SndSettleMode = f.Next().Ubyte(SenderMixed)
	p.RcvSettleMode = f.Next().Ubyte(ReceiverFirst)
	p.Source = decodeTerminus(f.Next(), 7)
	p.Target = decodeTerminus(f.Next(), 0)
	f.Next().Skip() // unsettled
	f.Next().Skip() // incomplete-unsettled
	p.InitialDeliveryCount = f.Next().Uint(0)
	p.MaxMessageSize = f.Next().Ulong(0)
	f.Next().Skip() // offered-capabilities
	f.Next().Skip() // desired-capabilities
	p.Properties = f.Next().Map()
}

func (p *Flow) decode(f *Fields) {
	p.NextIncomingID, p.HasNextIncomingID = f.Next().OptionalUint()
	p.IncomingWindow = f.Next().Uint(0)
	p.NextOutgoingID = f.Next().Uint(0)
	p.OutgoingWindow = f.Next().Uint(0)
	p.Handle, p.HasHandle = f.Next().OptionalUint()
	p.DeliveryCount, p.HasDeliveryCount = f.Next().OptionalUint()
	p.LinkCredit, p.HasLinkCredit = f.Next().OptionalUint()
	f.Next().Skip() // available
	p.Drain = f.Next().Bool(false)
	p.Echo = f.Next().Bool(false)
}

func (p *Transfer) decode(f *Fields) {
	p.Handle = f.Next().Uint(0)
	p.DeliveryID, p.HasDeliveryID = f.Next().OptionalUint()
	p.DeliveryTag = f.Next().Binary()
	p.MessageFormat = f.Next().Uint(0)
	p.Settled = f.Next().Bool(false)
	p.More = f.Next().Bool(false)
	f.Next().Skip() // rcv-settle-mode
	p.State = decodeState(f.Next())
	f.Next().Skip() // resume
	p.Aborted = f.Next().Bool(false)
}

func (p *Disposition) decode(f *Fields) {
	p.Role = Role(f.Next().Bool(false))
	p.First = f.Next().Uint(0)
	p.Last = f.Next().Uint(p.First)
	p.Settled = f.Next().Bool(false)
	p.State = decodeState(f.Next())
}

func (p *Detach) decode(f *Fields) {
	p.Handle = f.Next().Uint(0)
	p.Closed = f.Next().Bool(false)
	p.Error = decodeError(f.Next())
}

func (p *End) decode(f *Fields)   { p.Error = decodeError(f.Next()) }
func (p *Close) decode(f *Fields) { p.Error = decodeError(f.Next()) }
