// Package audit records which person changed what by a command, when and why, in the
// collection audit of the state database.
//
//	           begin, before the change         end, after the change
//	(no entry) ────────────────────────▶ begun ─────────────────────▶ done, failed
//
// An entry is written before its change. If an entry stays begun, the command died: the
// change may have been made, in part or completely. If the entry cannot be written, the
// command does not make the change.
package audit
