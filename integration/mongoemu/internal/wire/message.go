package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// These are opcodes of the wire protocol.
const (
	OpReply      = 1
	OpQuery      = 2004
	OpCompressed = 2012
	OpMsg        = 2013
)

// These are flags of OP_MSG.
const (
	FlagChecksum       = 1 << 0
	FlagMoreToCome     = 1 << 1
	FlagExhaustAllowed = 1 << 16
)

// MaxMessage is the size limit of a received message, in bytes.
const MaxMessage = 48_000_000

const headerSize = 16

// ErrMalformed is wrapped by errors about invalid messages.
var ErrMalformed = errors.New("malformed message")

// Sequence is an OP_MSG section that contains documents under one name.
type Sequence struct {
	Name string
	Docs [][]byte
}

// Message is a request.
type Message struct {
	RequestID int32
	Opcode    int32
	Flags     uint32
	// Body is the command document.
	Body []byte
	// Sequences are lists of documents that belong to fields of the command.
	Sequences []Sequence
	// Collection is the full collection name of an OP_QUERY.
	Collection string
}

// Read reads one message and validates its documents as BSON.
func Read(r io.Reader) (*Message, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := int64(int32(binary.LittleEndian.Uint32(header[0:])))
	if length < headerSize || length > MaxMessage {
		return nil, fmt.Errorf("%w: length %d", ErrMalformed, length)
	}
	payload, err := readPayload(r, length-headerSize)
	if err != nil {
		return nil, err
	}
	return Decode(header, payload)
}

// chunk bounds the bytes that are allocated before they arrive.
const chunk = 1 << 20

func readPayload(r io.Reader, n int64) ([]byte, error) {
	if n <= chunk {
		payload := make([]byte, n)
		_, err := io.ReadFull(r, payload)
		return payload, unexpected(err)
	}
	var b bytes.Buffer
	b.Grow(chunk)
	_, err := io.CopyN(&b, r, n)
	return b.Bytes(), unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Decode decodes a message from its header and payload, and validates its documents.
func Decode(header [headerSize]byte, payload []byte) (*Message, error) {
	m := &Message{
		RequestID: int32(binary.LittleEndian.Uint32(header[4:])),
		Opcode:    int32(binary.LittleEndian.Uint32(header[12:])),
	}
	switch m.Opcode {
	case OpMsg:
		return m, m.decodeMsg(header, payload)
	case OpQuery:
		return m, m.decodeQuery(payload)
	}
	return nil, fmt.Errorf("%w: opcode %d", ErrMalformed, m.Opcode)
}

func (m *Message) decodeMsg(header [headerSize]byte, p []byte) error {
	if len(p) < 5 {
		return fmt.Errorf("%w: OP_MSG of %d bytes", ErrMalformed, len(p))
	}
	m.Flags = binary.LittleEndian.Uint32(p)
	if unknown := m.Flags & 0xffff &^ (FlagChecksum | FlagMoreToCome); unknown != 0 {
		return fmt.Errorf("%w: unknown required flags %#x", ErrMalformed, unknown)
	}
	if m.Flags&FlagChecksum != 0 {
		if len(p) < 9 {
			return fmt.Errorf("%w: no room for the checksum", ErrMalformed)
		}
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Checksum(header[:], table), table, p[:len(p)-4])
		if sum != binary.LittleEndian.Uint32(p[len(p)-4:]) {
			return fmt.Errorf("%w: checksum does not match", ErrMalformed)
		}
		p = p[:len(p)-4]
	}
	for p = p[4:]; len(p) > 0; {
		kind := p[0]
		section, rest, err := lengthPrefixed(p[1:])
		if err != nil {
			return err
		}
		p = rest
		switch kind {
		case 0:
			if m.Body != nil {
				return fmt.Errorf("%w: two body sections", ErrMalformed)
			}
			if err := bsonraw.Validate(section); err != nil {
				return fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			m.Body = section
		case 1:
			if err := m.decodeSequence(section[4:]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: section kind %d", ErrMalformed, kind)
		}
	}
	if m.Body == nil {
		return fmt.Errorf("%w: no body section", ErrMalformed)
	}
	return nil
}

// lengthPrefixed splits off the first part of p. Its first four bytes are its length,
// including themselves.
func lengthPrefixed(p []byte) (part, rest []byte, err error) {
	if len(p) < 5 {
		return nil, nil, fmt.Errorf("%w: section cut short", ErrMalformed)
	}
	n := int64(binary.LittleEndian.Uint32(p))
	if n < 5 || n > int64(len(p)) {
		return nil, nil, fmt.Errorf("%w: section length %d of %d", ErrMalformed, n, len(p))
	}
	return p[:n:n], p[n:], nil
}

func (m *Message) decodeSequence(p []byte) error {
	end := bytes.IndexByte(p, 0)
	if end < 0 {
		return fmt.Errorf("%w: unterminated sequence name", ErrMalformed)
	}
	s := Sequence{Name: string(p[:end])}
	for p = p[end+1:]; len(p) > 0; {
		doc, rest, err := lengthPrefixed(p)
		if err != nil {
			return err
		}
		if err := bsonraw.Validate(doc); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		s.Docs = append(s.Docs, doc)
		p = rest
	}
	for _, other := range m.Sequences {
		if other.Name == s.Name {
			return fmt.Errorf("%w: two sequences named %q", ErrMalformed, s.Name)
		}
	}
	m.Sequences = append(m.Sequences, s)
	return nil
}

func (m *Message) decodeQuery(p []byte) error {
	if len(p) < 4 {
		return fmt.Errorf("%w: OP_QUERY of %d bytes", ErrMalformed, len(p))
	}
	p = p[4:]
	end := bytes.IndexByte(p, 0)
	if end < 0 || len(p) < end+1+8 {
		return fmt.Errorf("%w: OP_QUERY without a query", ErrMalformed)
	}
	m.Collection = string(p[:end])
	doc, _, err := lengthPrefixed(p[end+9:])
	if err != nil {
		return err
	}
	if err := bsonraw.Validate(doc); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	m.Body = doc
	return nil
}

// AppendMsgHeader appends everything before the body of an OP_MSG reply. body is the size
// of the body in bytes.
func AppendMsgHeader(dst []byte, requestID, responseTo int32, flags uint32, body int) []byte {
	dst = appendHeader(dst, headerSize+4+1+body, requestID, responseTo, OpMsg)
	dst = binary.LittleEndian.AppendUint32(dst, flags)
	return append(dst, 0)
}

// AppendReplyHeader appends everything before the document of an OP_REPLY. body is the
// size of the document in bytes.
func AppendReplyHeader(dst []byte, requestID, responseTo int32, body int) []byte {
	dst = appendHeader(dst, headerSize+20+body, requestID, responseTo, OpReply)
	dst = binary.LittleEndian.AppendUint32(dst, 8) // AwaitCapable
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	return binary.LittleEndian.AppendUint32(dst, 1)
}

func appendHeader(dst []byte, length int, requestID, responseTo, opcode int32) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(length))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(requestID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(responseTo))
	return binary.LittleEndian.AppendUint32(dst, uint32(opcode))
}
