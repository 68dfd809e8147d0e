// Package cli has the common part of the programs' main functions. It reads the
// configuration from arguments and environment, reports its problems, and runs
// the service or one of the commands until a signal ends it.
//
// A program is one kong-tagged struct: the configuration, whose flags every command has,
// and a field tagged cmd for each command. [Parse] returns the chosen command.
// [Output], [List] and [Show] print the results of commands, on a [Result]. [Change] has the
// flags of a command that changes data, and asks for confirmation.
//
// github.com/alecthomas/kong does the rest: it finds the commands, decodes the values, suggests
// similar flags, calls the Validate of a command and lays out the help. Its own errors are
// printed as they are, the first one only. This package reads the environment, because tests
// have their own and an empty variable counts as unset. It hides values that may be secrets.
package cli
