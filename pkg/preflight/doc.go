// Package preflight checks what a service needs before it runs, for a command: servers,
// rights, indexes, properties, clocks. Each check is a line with its state and, unless it
// is ok, its remedy.
//
// A check changes nothing. Rights to write are found out by requests that match nothing or
// that the server refuses for another reason: it looks at the rights first.
//
// A failed line may pass by itself, such as a server that does not answer. With
// [Flags].Init such a line does not fail the command, so that an init container holds up a
// start only for what nobody but an operator can mend.
package preflight
