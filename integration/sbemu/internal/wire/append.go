package wire

// composite appends a performative; add appends its count fields.
func composite(b []byte, code byte, count int, add func([]byte) []byte) []byte {
	b, at := BeginList(AppendDescriptor(b, code))

	return EndCompound(add(b), at, count)
}

// Append implements [Performative].
func (p *Open) Append(b []byte) []byte {
	return composite(b, CodeOpen, 10, func(b []byte) []byte {
		b = AppendString(b, p.ContainerID)
		b = appendText(b, p.Hostname)
		b = AppendUint(b, p.MaxFrameSize)
		b = AppendUshort(b, p.ChannelMax)
		b = appendNonZero(b, p.IdleTimeout)
		b = append(b, codeNull, codeNull, codeNull, codeNull)

		return appendProperties(b, p.Properties)
	})
}

// Append implements [Performative].
func (p *Begin) Append(b []byte) []byte {
	return composite(b, CodeBegin, 5, func(b []byte) []byte {
		if p.Reply {
			b = AppendUshort(b, p.RemoteChannel)
		} else {
			b = AppendNull(b)
		}

		b = AppendUint(b, p.NextOutgoingID)
		b = AppendUint(b, p.IncomingWindow)
		b = AppendUint(b, p.OutgoingWindow)

		return AppendUint(b, p.HandleMax)
	})
}

// Append implements [Performative].
func (p *Attach) Append(b []byte) []byte {
	return composite(b, CodeAttach, 14, func(b []byte) []byte {
		b = AppendString(b, p.Name)
		b = AppendUint(b, p.Handle)
		b = AppendBool(b, bool(p.Role))
		b = AppendUbyte(b, p.SndSettleMode)
		b = AppendUbyte(b, p.RcvSettleMode)
		b = p.Source.append(b, CodeSource)
		b = p.Target.append(b, CodeTarget)
		b = append(b, codeNull, codeNull)

		if p.Role == RoleSender {
			b = AppendUint(b, p.InitialDeliveryCount)
		} else {
			b = AppendNull(b)
		}

		if p.MaxMessageSize > 0 {
			b = AppendUlong(b, p.MaxMessageSize)
		} else {
			b = AppendNull(b)
		}

		b = append(b, codeNull, codeNull)

		return appendProperties(b, p.Properties)
	})
}

// Append implements [Performative].
func (p *Flow) Append(b []byte) []byte {
	return composite(b, CodeFlow, 10, func(b []byte) []byte {
		b = appendOptional(b, p.NextIncomingID, p.HasNextIncomingID)
		b = AppendUint(b, p.IncomingWindow)
		b = AppendUint(b, p.NextOutgoingID)
		b = AppendUint(b, p.OutgoingWindow)
		b = appendOptional(b, p.Handle, p.HasHandle)
		b = appendOptional(b, p.DeliveryCount, p.HasDeliveryCount)
		b = appendOptional(b, p.LinkCredit, p.HasLinkCredit)
		b = AppendNull(b)
		b = AppendBool(b, p.Drain)

		return AppendBool(b, p.Echo)
	})
}

// Append implements [Performative]. It runs for every message, so it writes the short
// form of a list. The fields always fit in 255 bytes.
func (p *Transfer) Append(b []byte) []byte {
	b = append(AppendDescriptor(b, CodeTransfer), codeList8, 0, 6)
	at := len(b)
	b = AppendUint(b, p.Handle)

	if p.HasDeliveryID {
		b = AppendUint(b, p.DeliveryID)
		b = AppendBinary(b, p.DeliveryTag)
		b = AppendUint(b, p.MessageFormat)
	} else {
		b = append(b, codeNull, codeNull, codeNull)
	}

	b = AppendBool(b, p.Settled)
	b = AppendBool(b, p.More)

	if p.Aborted {
		b = append(b, codeNull, codeNull, codeNull, codeTrue)
		b[at-1] = 10
	}

	b[at-2] = byte(len(b) - at + 1)

	return append(b, p.Payload...)
}

// Append implements [Performative].
func (p *Disposition) Append(b []byte) []byte {
	return composite(b, CodeDisposition, 5, func(b []byte) []byte {
		b = AppendBool(b, bool(p.Role))
		b = AppendUint(b, p.First)

		if p.Last == p.First {
			b = AppendNull(b)
		} else {
			b = AppendUint(b, p.Last)
		}

		b = AppendBool(b, p.Settled)

		return p.State.append(b)
	})
}

// Append implements [Performative].
func (p *Detach) Append(b []byte) []byte {
	return composite(b, CodeDetach, 3, func(b []byte) []byte {
		b = AppendUint(b, p.Handle)
		b = AppendBool(b, p.Closed)

		return p.Error.append(b)
	})
}

// Append implements [Performative].
func (p *End) Append(b []byte) []byte {
	return composite(b, CodeEnd, 1, p.Error.append)
}

// Append implements [Performative].
func (p *Close) Append(b []byte) []byte {
	return composite(b, CodeClose, 1, p.Error.append)
}

func appendText(b []byte, s string) []byte {
	if s == "" {
		return AppendNull(b)
	}

	return AppendString(b, s)
}

func appendNonZero(b []byte, v uint32) []byte { return appendOptional(b, v, v != 0) }

func appendOptional(b []byte, v uint32, has bool) []byte {
	if !has {
		return AppendNull(b)
	}

	return AppendUint(b, v)
}

func appendProperties(b []byte, m Map) []byte {
	if len(m) == 0 {
		return AppendNull(b)
	}

	return AppendMap(b, m)
}
