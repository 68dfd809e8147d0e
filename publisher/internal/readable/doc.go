// Package readable distinguishes wrong events from a wrong configuration.
//
// If a few events among many readable ones are unreadable, the events are wrong: they go to
// the quarantine. If most events are unreadable, the configured field names
// (PENSTOCK_FIELD_*) or the database are wrong, and the whole store would follow. Two
// checks find that before any event is quarantined or the checkpoint moves:
//
//   - [Check] reads the oldest and the newest events of the store at the start;
//   - [Window] counts while events are read, and holds unreadable ones back until it
//     has decided.
//
// The limit is PENSTOCK_UNREADABLE_LIMIT, half of the events by default. The error names the
// configured fields and the fields that the documents have.
//
// An event that is in the quarantine already counts for neither: it was judged before, and a
// restart or a scan must not judge it otherwise. A scan reads in the order of the index,
// where unreadable events can be neighbours, such as all ids of one type. So if the window
// trips in a scan, [Check.Whole] decides by a random sample of the whole store.
//
// # The window
//
//	unreadable ──▶ held ── enough readable events follow ──▶ released: quarantine
//	                │  └── hold time or space is used up ──▶ released, or tripped
//	                └───── most of the window unreadable ──▶ tripped: ErrUnreadable
//
// Each readable event counts. Unreadable events count once for each aggregate. So a single
// aggregate never trips the window, however many events it has. An event without an
// aggregate id counts separately.
//
// An event is released early only when so many readable ones have followed that no window
// with it can trip. So if the window trips, none of its unreadable events has been
// released, except those that exceeded the hold time or the space. If few events arrive,
// these can be the events of half a window of aggregates. The checkpoint never passes a held
// event, so a process that restarts reads the same events again and trips again.
package readable
