package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame types (part 2, section 2.3.1, and part 5, section 5.3.1).
const (
	FrameAMQP = 0
	FrameSASL = 1
)

// FrameHeaderSize is the size in bytes of a frame without extended header and body.
const FrameHeaderSize = 8

// MinMaxFrameSize is the smallest maximum frame size, in bytes, that a peer can announce.
const MinMaxFrameSize = 512

// Protocol ids of a connection's first eight bytes (part 2, section 2.2).
const (
	ProtocolAMQP = 0
	ProtocolTLS  = 2
	ProtocolSASL = 3
)

// ErrFrame means that a frame's header is malformed.
var ErrFrame = errors.New("malformed frame")

// ProtocolHeader returns the eight bytes that open a protocol layer.
func ProtocolHeader(id byte) []byte { return []byte{'A', 'M', 'Q', 'P', id, 1, 0, 0} }

// Frame is one received frame. Its body shares the reader's memory and is valid until the
// next frame is read.
type Frame struct {
	Type    byte
	Channel uint16
	Body    []byte // empty for a keep-alive
}

// FrameReader reads frames of a bounded size.
type FrameReader struct {
	r   io.Reader
	buf []byte
	pos int // start of the bytes that were read and not yet returned
	end int // end of these bytes
	max int
}

// NewFrameReader returns a reader of frames of up to maxFrame bytes.
func NewFrameReader(r io.Reader, maxFrame int) *FrameReader {
	return &FrameReader{r: r, buf: make([]byte, max(2*maxFrame, 16<<10)), max: maxFrame}
}

// Buffered reports whether a whole frame can be read without waiting.
func (f *FrameReader) Buffered() bool {
	have := f.end - f.pos

	return have >= FrameHeaderSize && have >= int(binary.BigEndian.Uint32(f.buf[f.pos:]))
}

// Protocol reads the eight bytes that open a protocol layer and returns its id.
func (f *FrameReader) Protocol() (byte, error) {
	if err := f.fill(FrameHeaderSize); err != nil {
		return 0, err
	}

	b := f.buf[f.pos : f.pos+FrameHeaderSize]
	f.pos += FrameHeaderSize

	if string(b[:4]) != "AMQP" || b[5] != 1 || b[6] != 0 || b[7] != 0 {
		return 0, fmt.Errorf("%w: protocol header % x", ErrFrame, b)
	}

	return b[4], nil
}

// Next returns the next frame.
func (f *FrameReader) Next() (Frame, error) {
	if err := f.fill(FrameHeaderSize); err != nil {
		return Frame{}, err
	}

	head := f.buf[f.pos : f.pos+FrameHeaderSize]
	size := binary.BigEndian.Uint32(head)
	offset := int(head[4]) * 4

	if size < FrameHeaderSize || offset < FrameHeaderSize || uint32(offset) > size {
		return Frame{}, fmt.Errorf("%w: size %d, data offset %d", ErrFrame, size, offset)
	}

	if size > uint32(f.max) {
		return Frame{}, fmt.Errorf("%w: size %d is over the limit of %d", ErrFrame, size, f.max)
	}

	if err := f.fill(int(size)); err != nil {
		return Frame{}, err
	}

	b := f.buf[f.pos : f.pos+int(size)]
	f.pos += int(size)

	return Frame{Type: b[5], Channel: binary.BigEndian.Uint16(b[6:]), Body: b[offset:]}, nil
}

// fill reads until n bytes are buffered.
func (f *FrameReader) fill(n int) error {
	if f.end-f.pos >= n {
		return nil
	}

	if f.pos == f.end {
		f.pos, f.end = 0, 0
	}

	if f.pos > 0 && len(f.buf)-f.pos < f.max {
		f.end = copy(f.buf, f.buf[f.pos:f.end])
		f.pos = 0
	}

	got, err := io.ReadAtLeast(f.r, f.buf[f.end:], n-(f.end-f.pos))
	f.end += got

	if err != nil {
		return fmt.Errorf("read frame: %w", err)
	}

	return nil
}

// BeginFrame begins a frame. [EndFrame] must end the frame.
func BeginFrame(b []byte, typ byte, channel uint16) ([]byte, int) {
	return append(b, 0, 0, 0, 0, 2, typ, byte(channel>>8), byte(channel)), len(b)
}

// EndFrame writes the size of the frame begun at start.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start))

	return b
}

// AppendKeepAlive appends a frame without a body.
func AppendKeepAlive(b []byte) []byte {
	b, at := BeginFrame(b, FrameAMQP, 0)

	return EndFrame(b, at)
}
