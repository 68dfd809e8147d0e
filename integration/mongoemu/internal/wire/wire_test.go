package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

func header(length int, opcode int32) []byte {
	h := binary.LittleEndian.AppendUint32(nil, uint32(length))
	h = binary.LittleEndian.AppendUint32(h, 7)
	h = binary.LittleEndian.AppendUint32(h, 0)
	return binary.LittleEndian.AppendUint32(h, uint32(opcode))
}

func message(opcode int32, payload ...[]byte) []byte {
	body := bytes.Join(payload, nil)
	return append(header(16+len(body), opcode), body...)
}

func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func sequence(name string, docs ...[]byte) []byte {
	inner := append([]byte(name), 0)
	inner = append(inner, bytes.Join(docs, nil)...)
	return append(append([]byte{1}, u32(uint32(4+len(inner)))...), inner...)
}

var (
	ping = []byte(bsonraw.MustMarshal(bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "admin"}}))
	one  = []byte(bsonraw.MustMarshal(bson.D{{Key: "_id", Value: 1}}))
)

func withChecksum(m []byte) []byte {
	binary.LittleEndian.PutUint32(m, uint32(len(m)+4))
	m[16] |= wire.FlagChecksum
	return append(m, u32(crc32.Checksum(m, crc32.MakeTable(crc32.Castagnoli)))...)
}

func TestRead(t *testing.T) {
	t.Parallel()
	m, err := wire.Read(bytes.NewReader(message(wire.OpMsg, u32(0), []byte{0}, ping, sequence("documents", one, one))))
	if err != nil || m.RequestID != 7 || !bytes.Equal(m.Body, ping) || len(m.Sequences) != 1 ||
		m.Sequences[0].Name != "documents" || len(m.Sequences[0].Docs) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = wire.Read(bytes.NewReader(message(wire.OpMsg, u32(wire.FlagExhaustAllowed), sequence("x"), []byte{0}, ping)))
	if err != nil || !bytes.Equal(m.Body, ping) || m.Flags != wire.FlagExhaustAllowed {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = wire.Read(bytes.NewReader(message(wire.OpQuery, u32(4), []byte("admin.$cmd\x00"), u32(0), u32(1), ping)))
	if err != nil || m.Collection != "admin.$cmd" || !bytes.Equal(m.Body, ping) {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = wire.Read(bytes.NewReader(withChecksum(message(wire.OpMsg, u32(0), []byte{0}, ping))))
	if err != nil || !bytes.Equal(m.Body, ping) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	wrongSum := withChecksum(message(wire.OpMsg, u32(0), []byte{0}, ping))
	wrongSum[len(wrongSum)-1] ^= 1
	broken := bytes.Clone(ping)
	broken[len(broken)-1] = 1
	for name, m := range map[string][]byte{
		"length too small":    header(15, wire.OpMsg),
		"length too large":    header(wire.MaxMessage+1, wire.OpMsg),
		"negative length":     header(-1, wire.OpMsg),
		"compressed":          message(wire.OpCompressed, u32(0), ping),
		"legacy insert":       message(2002, u32(0), ping),
		"no sections":         message(wire.OpMsg, u32(0)),
		"no body":             message(wire.OpMsg, u32(0), sequence("x", one)),
		"two bodies":          message(wire.OpMsg, u32(0), []byte{0}, ping, []byte{0}, ping),
		"two equal sequences": message(wire.OpMsg, u32(0), []byte{0}, ping, sequence("x"), sequence("x")),
		"unknown section":     message(wire.OpMsg, u32(0), []byte{2}, ping),
		"unknown flag":        message(wire.OpMsg, u32(4), []byte{0}, ping),
		"broken document":     message(wire.OpMsg, u32(0), []byte{0}, broken),
		"broken sequence":     message(wire.OpMsg, u32(0), []byte{0}, ping, sequence("x", broken)),
		"unterminated name":   message(wire.OpMsg, u32(0), []byte{0}, ping, []byte{1}, u32(8), []byte("xxxx")),
		"wrong checksum":      wrongSum,
		"query cut short":     message(wire.OpQuery, u32(0), []byte("admin.$cmd\x00"), u32(0)),
		"query without name":  message(wire.OpQuery, u32(0), []byte("xxxx")),
	} {
		if _, err := wire.Read(bytes.NewReader(m)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := message(wire.OpMsg, u32(0), []byte{0}, ping)
	for n := range whole {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := wire.Read(bytes.NewReader(whole[:n])); !errors.Is(err, want) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// A peer that announces a large message but sends few bytes causes only a small
// allocation.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	t.Parallel()
	m := append(header(wire.MaxMessage, wire.OpMsg), make([]byte, 100)...)
	r := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wire.Read(bytes.NewReader(m)); err == nil {
				b.Fatal("read a message that is not there")
			}
		}
	})
	if perRead := r.AllocedBytesPerOp(); perRead > 4<<20 {
		t.Errorf("%d bytes allocated", perRead)
	}
}

// Any input is read without a panic, and accepted messages are valid.
func FuzzRead(f *testing.F) {
	f.Add(message(wire.OpMsg, u32(0), []byte{0}, ping, sequence("documents", one, one)))
	f.Add(message(wire.OpQuery, u32(4), []byte("admin.$cmd\x00"), u32(0), u32(1), ping))
	f.Add(withChecksum(message(wire.OpMsg, u32(0), []byte{0}, ping)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := bsonraw.Validate(m.Body); err != nil {
			t.Error(err)
		}
		for _, s := range m.Sequences {
			for _, doc := range s.Docs {
				if err := bsonraw.Validate(doc); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
