package wire

// SASLMechanisms announces the mechanisms that the server accepts.
type SASLMechanisms struct{ Mechanisms []Symbol }

// SASLInit is the client's choice. Its response may contain a secret and must never be
// logged.
type SASLInit struct {
	Mechanism Symbol
	Response  []byte
	Hostname  string
}

// SASLOutcome ends the negotiation; code 0 is success.
type SASLOutcome struct {
	Code byte
	Data []byte
}

// Append implements [Performative].
func (p *SASLMechanisms) Append(b []byte) []byte {
	return composite(b, CodeSASLMechanisms, 1, func(b []byte) []byte {
		size := 2
		for _, m := range p.Mechanisms {
			size += 1 + len(m)
		}

		b = append(b, codeArray8, byte(size), byte(len(p.Mechanisms)), codeSym8)
		for _, m := range p.Mechanisms {
			b = append(append(b, byte(len(m))), m...)
		}

		return b
	})
}

func (p *SASLMechanisms) decode(f *Fields) {
	d := f.Next()
	if len(d.buf) > 0 && d.buf[0] == codeSym8 {
		p.Mechanisms = []Symbol{Symbol(d.Text())}

		return
	}

	if code := d.byte(); code != codeArray8 {
		d.mismatch(code, "array of symbols")

		return
	}

	in, n := d.compound(false)
	if code := in.byte(); code != codeSym8 {
		d.mismatch(code, "array of symbols")

		return
	}

	for ; n > 0 && in.err == nil; n-- {
		p.Mechanisms = append(p.Mechanisms, Symbol(in.take(int(in.byte()))))
	}

	if in.err != nil {
		d.fail(in.err)
	}
}

// Append implements [Performative].
func (p *SASLInit) Append(b []byte) []byte {
	return composite(b, CodeSASLInit, 3, func(b []byte) []byte {
		b = AppendSymbol(b, p.Mechanism)
		b = AppendBinary(b, p.Response)

		return appendText(b, p.Hostname)
	})
}

func (p *SASLInit) decode(f *Fields) {
	p.Mechanism = Symbol(f.Next().Text())
	p.Response = f.Next().Binary()
	p.Hostname = f.Next().Text()
}

// Append implements [Performative].
func (p *SASLOutcome) Append(b []byte) []byte {
	return composite(b, CodeSASLOutcome, 2, func(b []byte) []byte {
		return AppendBinary(AppendUbyte(b, p.Code), p.Data)
	})
}

func (p *SASLOutcome) decode(f *Fields) {
	p.Code = f.Next().Ubyte(0)
	p.Data = f.Next().Binary()
}
