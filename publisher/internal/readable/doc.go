// Package readable tells events that are wrong from a configuration that is wrong.
//
// A few unreadable events among many readable ones are the events' fault: they go to
// the quarantine. If most events are unreadable, the configured field names
// (PENSTOCK_FIELD_*) or the database are at fault, and the whole store would follow.
// Two checks find that before anything is quarantined or the checkpoint moves:
//
//   - [CheckSample] reads the oldest and the newest events of the store at the start;
//   - [Window] counts while events are read, and holds unreadable ones back until it
//     has decided.
//
// # The window
//
//	unreadable ──▶ held ── enough readable events follow ──▶ released: quarantine
//	                │  └── hold time or space is used up ──▶ released, or tripped
//	                └───── most of the window unreadable ──▶ tripped: ErrUnreadable
//
// Each readable event counts. Unreadable events count once for each aggregate, so that
// one aggregate alone trips nothing, however many events it has. An event without any
// aggregate id counts for itself.
//
// An event is released early only when so many readable ones have followed that no
// window with it can trip. So if the window trips, none of its unreadable events has
// been released, except those that waited for longer than the hold time or did not
// fit. A process that restarts reads the same events again and trips again, because
// the checkpoint never passes an event that is held.
package readable
