// Package operate has the commands by which a person operates the projectors, and the
// command line of the program.
//
//	arguments, environment ──▶ Parse ──▶ Environment ──▶ command.run ──▶ stores.Stores
//	                                     Config              │           catalog, jobs,
//	                                     Projections         │           parked list, audit
//	                                     Logger              ▼
//	                                     Serve            stdout
//
// A command is a struct of its flags and arguments, in a file of its name, and a field of
// commands. It says which parts of the configuration it needs, and only those are
// validated. It runs on an [Environment]. Commands change stored data, and the pods act on
// that data; no command talks to a pod.
//
// The service is a command too. Package app makes it, and hands it over as
// [Environment.Serve].
//
// # What the service shares
//
// The service verifies by the same worker as the command verify, compiles
// definitions in the same way ([Compile]), and reports parked aggregates in the same words
// as the command status ([ParkedConditions]).
package operate
