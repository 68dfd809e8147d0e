// Package testcase runs the tests of projections: cases in YAML with given events and
// expected documents.
//
// A case is folded without a server: its events go through the projections, and the results
// are compared with the expected documents and parked aggregates after each step. If the case
// passes, it is folded a second time. The first time, the events of an aggregate are folded
// together; the second time, each event by itself. A difference means that a projection is not
// a pure function of its events, which is possible only in Go.
//
//	file  ──▶ steps, events, expectations        file, step, value, mapping, resolve
//	case  ──▶ fold in batches ──▶ state ──▶ check
//	      └─▶ fold one by one ──▶ state ──▶ compare
package testcase
