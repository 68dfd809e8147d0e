package wire_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// values generates any value that [wire.Decoder.Value] returns.
func values(depth int) *rapid.Generator[any] {
	simple := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Uint8().AsAny(), rapid.Uint16().AsAny(), rapid.Uint32().AsAny(), rapid.Uint64().AsAny(),
		rapid.Int8().AsAny(), rapid.Int16().AsAny(), rapid.Int32().AsAny(), rapid.Int64().AsAny(),
		rapid.Float32().AsAny(), rapid.Float64().AsAny(),
		rapid.String().AsAny(),
		rapid.StringMatching(`[ -~]{0,300}`).AsAny(),
		rapid.SliceOfN(rapid.Byte(), 0, 300).AsAny(),
		rapid.Map(rapid.StringMatching(`[a-z:-]{0,20}`), func(s string) any { return wire.Symbol(s) }),
		rapid.Map(rapid.Int64(), func(n int64) any { return wire.Timestamp(n) }),
		rapid.Map(rapid.Uint32(), func(n uint32) any { return wire.Char(n) }),
		rapid.Map(rapid.Uint64(), func(n uint64) any { return wire.UUID{0: byte(n), 15: byte(n >> 8)} }),
		rapid.Map(rapid.SliceOfN(rapid.Int64(), 0, 5), func(n []int64) any { return wire.Raw(wire.AppendLongs(nil, n)) }),
	}

	if depth == 0 {
		return rapid.OneOf(simple...)
	}

	inner := values(depth - 1)

	return rapid.OneOf(append(simple,
		rapid.SliceOfN(inner, 0, 4).AsAny(),
		rapid.Map(rapid.SliceOfN(inner, 2, 6), func(vs []any) any {
			m := wire.Map{}
			for i := 0; i+1 < len(vs); i += 2 {
				m = append(m, wire.Pair{Key: vs[i], Value: vs[i+1]})
			}

			return m
		}),
		rapid.Map(inner, func(v any) any { return wire.Described{Descriptor: uint64(0x70), Value: v} }),
	)...)
}

func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		encoded := wire.AppendValue(nil, v)

		d := wire.NewDecoder(encoded)
		got := d.Value()

		if d.Err() != nil || d.Len() > 0 || !reflect.DeepEqual(got, v) {
			t.Fatalf("decoding %#v gave %#v with %d bytes left: %v", v, got, d.Len(), d.Err())
		}

		d = wire.NewDecoder(encoded)
		if d.Skip(); d.Err() != nil || d.Len() > 0 {
			t.Fatalf("skip leaves %d bytes: %v", d.Len(), d.Err())
		}

		// No proper prefix of a value is a value.
		cut := rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")
		d = wire.NewDecoder(encoded[:cut])

		if d.Skip(); d.Err() == nil {
			t.Fatalf("skip accepts % x cut to %d bytes", encoded, cut)
		}
	})
}

func performatives() *rapid.Generator[wire.Performative] {
	u32 := rapid.Uint32()
	text := rapid.StringMatching(`[a-z/$]{0,40}`)

	return rapid.Custom(func(t *rapid.T) wire.Performative {
		failure := func() *wire.Error {
			if rapid.Bool().Draw(t, "no error") {
				return nil
			}

			return &wire.Error{Condition: wire.Symbol(text.Draw(t, "condition")), Description: text.Draw(t, "description"),
				Info: wire.Map{{Key: wire.Symbol("k"), Value: "v"}}}
		}
		state := func() wire.State {
			return []wire.State{{}, wire.Accepted, wire.Released, wire.Rejected(failure()),
				{Code: wire.CodeModified, DeliveryFailed: true, UndeliverableHere: rapid.Bool().Draw(t, "defer"),
					Annotations: wire.Map{{Key: wire.Symbol("k"), Value: int64(1)}}}}[rapid.IntRange(0, 4).Draw(t, "state")]
		}

		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			return &wire.Open{ContainerID: text.Draw(t, "id"), Hostname: text.Draw(t, "host"), MaxFrameSize: u32.Draw(t, "max"),
				ChannelMax: rapid.Uint16().Draw(t, "channels"), IdleTimeout: u32.Draw(t, "idle"), Properties: wire.Map{{Key: wire.Symbol("p"), Value: "v"}}}
		case 1:
			return &wire.Begin{RemoteChannel: rapid.Uint16().Draw(t, "channel"), Reply: true, NextOutgoingID: u32.Draw(t, "next"),
				IncomingWindow: u32.Draw(t, "in"), OutgoingWindow: u32.Draw(t, "out"), HandleMax: u32.Draw(t, "handles")}
		case 2:
			return &wire.Attach{Name: text.Draw(t, "name"), Handle: u32.Draw(t, "handle"), Role: wire.RoleSender,
				SndSettleMode: 1, RcvSettleMode: 1, Source: &wire.Terminus{Address: text.Draw(t, "source"), Filter: wire.Map{{Key: wire.Symbol("f"), Value: nil}}},
				Target: &wire.Terminus{Address: text.Draw(t, "target"), Dynamic: true}, InitialDeliveryCount: u32.Draw(t, "count"),
				MaxMessageSize: rapid.Uint64Min(1).Draw(t, "max"), Properties: wire.Map{{Key: wire.Symbol("p"), Value: uint32(7)}}}
		case 3:
			return &wire.Attach{Role: wire.RoleReceiver, Target: &wire.Terminus{Coordinator: true}}
		case 4:
			return &wire.Flow{NextIncomingID: u32.Draw(t, "in"), HasNextIncomingID: true, Handle: u32.Draw(t, "handle"), HasHandle: true,
				DeliveryCount: u32.Draw(t, "count"), HasDeliveryCount: true, LinkCredit: u32.Draw(t, "credit"), HasLinkCredit: true,
				Drain: rapid.Bool().Draw(t, "drain"), Echo: rapid.Bool().Draw(t, "echo")}
		case 5:
			return &wire.Flow{IncomingWindow: 1, OutgoingWindow: 2}
		case 6:
			return &wire.Transfer{Handle: u32.Draw(t, "handle"), DeliveryID: u32.Draw(t, "id"), HasDeliveryID: true,
				DeliveryTag: rapid.SliceOfN(rapid.Byte(), 1, 32).Draw(t, "tag"), MessageFormat: u32.Draw(t, "format"),
				Settled: rapid.Bool().Draw(t, "settled"), More: rapid.Bool().Draw(t, "more"), Aborted: rapid.Bool().Draw(t, "aborted"),
				Payload: rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "payload")}
		case 7:
			first := rapid.Uint32Max(math.MaxInt32).Draw(t, "first")

			return &wire.Disposition{Role: wire.RoleReceiver, First: first, Last: first + rapid.Uint32Max(9).Draw(t, "span"),
				Settled: rapid.Bool().Draw(t, "settled"), State: state()}
		case 8:
			return &wire.Detach{Handle: u32.Draw(t, "handle"), Closed: true, Error: failure()}
		case 9:
			return &wire.End{Error: failure()}
		case 10:
			return &wire.Close{Error: failure()}
		default:
			return &wire.SASLMechanisms{Mechanisms: []wire.Symbol{"PLAIN", "ANONYMOUS"}}
		}
	})
}

func TestPerformativesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := performatives().Draw(t, "performative")

		got, err := wire.Decode(p.Append(nil))
		if err != nil {
			t.Fatal(err)
		}

		if !reflect.DeepEqual(got, p) {
			t.Fatalf("decoding %#v gave %#v", p, got)
		}
	})
}

func TestFramesArriveInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			stream []byte
			sent   [][]byte
		)

		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			body := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "body")
			sent = append(sent, body)

			var at int
			stream, at = wire.BeginFrame(stream, wire.FrameAMQP, 7)
			stream = wire.EndFrame(append(stream, body...), at)
		}

		r := wire.NewFrameReader(&pieces{data: stream, size: rapid.IntRange(1, 5000).Draw(t, "piece")}, 4096)

		for _, want := range sent {
			f, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}

			if f.Channel != 7 || !bytes.Equal(f.Body, want) {
				t.Fatalf("frame differs")
			}
		}
	})
}

// pieces is a reader that returns few bytes per read.
type pieces struct {
	data []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	n := copy(b, p.data[:min(p.size, len(p.data))])
	p.data = p.data[n:]

	return n, nil
}

func TestArrays(t *testing.T) {
	t.Parallel()

	decode := func(b []byte) any {
		d := wire.NewDecoder(b)

		return d.Value()
	}

	longs, ok := wire.Longs(decode(wire.AppendLongs(nil, []int64{1, -2, 1 << 60})))
	if !ok || !reflect.DeepEqual(longs, []int64{1, -2, 1 << 60}) {
		t.Fatal(longs, ok)
	}

	if longs, ok = wire.Longs([]any{int64(1), int32(2)}); !ok || !reflect.DeepEqual(longs, []int64{1, 2}) {
		t.Fatal(longs, ok)
	}

	uuids, ok := wire.UUIDs(decode(wire.AppendUUIDs(nil, []wire.UUID{{1}, {2}})))
	if !ok || !reflect.DeepEqual(uuids, []wire.UUID{{1}, {2}}) {
		t.Fatal(uuids, ok)
	}

	if _, ok := wire.UUIDs(decode(wire.AppendLongs(nil, []int64{1}))); ok {
		t.Fatal("longs pass for uuids")
	}
}

// FuzzDecode feeds frames to the decoder. If the decoder accepts a frame, it must accept
// the re-encoded frame too.
func FuzzDecode(f *testing.F) {
	for _, p := range []wire.Performative{
		&wire.Open{ContainerID: "c", Properties: wire.Map{{Key: wire.Symbol("k"), Value: "v"}}},
		&wire.Attach{Name: "n", Source: &wire.Terminus{Address: "a"}, Target: &wire.Terminus{}},
		&wire.Transfer{HasDeliveryID: true, DeliveryTag: []byte{1}, Payload: []byte("x")},
		&wire.Disposition{Role: wire.RoleReceiver, State: wire.Rejected(wire.Errorf("c", "d"))},
		&wire.Flow{HasHandle: true, HasLinkCredit: true, LinkCredit: 5},
		&wire.SASLInit{Mechanism: "PLAIN", Response: []byte("x")},
		&wire.SASLMechanisms{Mechanisms: []wire.Symbol{"A", "B"}},
	} {
		f.Add(p.Append(nil))
	}

	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := wire.Decode(b)
		if err != nil {
			return
		}

		if m, ok := p.(*wire.SASLMechanisms); ok && len(m.Mechanisms) > 10 {
			return // more mechanisms than a narrow array holds; no server offers so many
		}

		if _, err := wire.Decode(p.Append(nil)); err != nil {
			t.Fatalf("%#v does not decode again: %v", p, err)
		}
	})
}

// FuzzValue feeds bytes to the value decoder: Value and Skip must agree and must allocate
// in proportion to the input.
func FuzzValue(f *testing.F) {
	f.Add(wire.AppendValue(nil, wire.Map{{Key: "a", Value: []any{int64(1), "x", wire.Described{Descriptor: uint64(1)}}}}))
	f.Add(wire.AppendLongs(nil, []int64{1, 2}))
	f.Add([]byte{0xd1, 0, 0, 0, 5, 0, 0, 0, 0, 0x40}) // a map of count zero with a byte in it
	f.Add([]byte{0xf0, 0, 0, 0, 5, 0x7f, 0xff, 0xff, 0xff, 0x40})

	f.Fuzz(func(t *testing.T, b []byte) {
		d, s := wire.NewDecoder(b), wire.NewDecoder(b)
		v := d.Value()
		s.Skip()

		if (d.Err() == nil) != (s.Err() == nil) {
			t.Fatalf("decode says %v, skip %v", d.Err(), s.Err())
		}

		if d.Err() == nil && d.Len() != s.Len() {
			t.Fatalf("decode leaves %d bytes, skip %d", d.Len(), s.Len())
		}

		if d.Err() == nil {
			again := wire.NewDecoder(wire.AppendValue(nil, v))
			if again.Value(); again.Err() != nil {
				t.Fatalf("%#v does not decode again: %v", v, again.Err())
			}
		}
	})
}
