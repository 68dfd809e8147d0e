// Package preflight has the checks of a command that checks the prerequisites of a service:
// servers, rights, indexes, properties, clocks. Each check is a line with its state and,
// unless that is ok, its remedy.
//
// A check changes nothing. Rights to write are tested by requests that match nothing, or
// that the server refuses for another reason after it has checked the rights.
//
// A failed line may pass by itself, for example when a server does not answer. With
// [Flags].Init such a line does not fail the command. So an init container delays a start
// only for problems that an operator must fix.
package preflight
