// Package checkpoint remembers how far the event store has been published, so that
// a term resumes where the one before it was safe.
//
//	 events read                                  acknowledgements, in any order
//	      │                                                    │
//	      ▼ Add                                                ▼ Ack
//	┌─ Watermark ──────────────────────────────────────────────────────┐
//	│  acked acked acked │ UNACKED acked acked UNACKED UNACKED          │
//	└────────────────────┴─────────────────────────────────────────────┘
//	                     ▲ Low: it and all before it are acknowledged
//	                     │
//	                   Saver ── every second, every N events, at the end ──▶ Claim.Save
//	                                                                          │
//	                       {_id: stream, epoch, holder, token, …} ◀── matches only the
//	                                                                  epoch that it claimed
//
// What is stored is always in one of these states:
//
//	                 ┌────────────────── history lost ─────────────────┐
//	                 ▼                                                 │
//	nothing ──▶ scanning from (aggregateId, eventId) ──▶ streaming from a time ──▶ streaming after a token
//	   │                                                    ▲              ▲                 │
//	   └──────────────── start: now, or a time ─────────────┘              └── history lost, │
//	                                                                            by scanning ─┘
package checkpoint
