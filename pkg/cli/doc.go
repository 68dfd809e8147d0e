// Package cli is what the programs' main functions share: it reads the configuration
// from arguments and environment, reports everything that is wrong with it at once, and
// runs the service, or one of the commands, until a signal ends it.
//
// A program is one kong-tagged struct: the configuration, whose flags every command
// takes, and a field tagged cmd for each command. [ParseCommand] gives the chosen
// command. [Output], [List] and [Show] print what a command lists; [Change] counts and
// asks before a command changes something.
package cli
