// Package guard stops a projector whose configuration or projections are wrong.
//
// A projector sets an event aside when it dead-letters a message that is not an event, or
// parks an aggregate whose event it cannot apply. If only a few events fail, the events
// are wrong. If most events of one rule fail, the configuration or the projection is
// wrong: a [Guard] then trips, and the projector stops instead of setting its whole input
// aside.
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
// So before good events show that the rule works, only a few bad events can be set aside.
// A redelivered event counts once, whether it is held back or was set aside. A guard that
// has tripped stays tripped. A restart with the corrected definition creates a new guard.
package guard
