// Package guard stops a projector whose configuration or projections are wrong.
//
// A projector sets an event aside when it dead-letters a message that is not an event, or
// parks an aggregate whose event it cannot apply. A few such events are the events'
// fault. If most events of one rule fail, the configuration or the projection is
// wrong: a [Guard] then trips, and the projector stops instead of setting its whole
// input aside.
//
// A rule is one handler of a projection, or the reading of messages. Each is judged
// separately:
//
//	bad event ──▶ share of the window small enough? ──yes──▶ may be set aside
//	                     │ no
//	                     ▼
//	              more than Minimum set aside or held back? ──yes──▶ tripped, permanently
//	                     │ no
//	                     ▼
//	              held back for HoldTime; then it may be set aside
//
// So nothing is set aside before good events show that the rule works, unless there are
// only a few bad ones. A redelivered event counts once, whether it is held back or was
// set aside. A guard that has tripped stays tripped: a restart with the right definition
// creates a new guard.
package guard
