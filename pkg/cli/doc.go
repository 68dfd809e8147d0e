// Package cli has the common part of the programs' main functions. It reads the
// configuration from arguments and environment, reports all its problems together, and runs
// the service or one of the commands until a signal ends it.
//
// A program is one kong-tagged struct: the configuration, whose flags every command has,
// and a field tagged cmd for each command. [ParseCommand] returns the chosen command.
// [Output], [List] and [Show] print the results of commands, on a [Result]. [Change] has the
// flags of a command that changes data, and asks for confirmation.
//
// # The division of work with kong
//
// github.com/alecthomas/kong builds the model, scans the arguments, finds the commands,
// decodes the values, suggests similar flags and lays out the help. A kong resolver reads
// the environment, and every value goes through a mapper. This package adds only the
// features for which kong v1.17 has no option:
//
//   - All problems are reported together. kong.Parse returns at the first one. So the
//     mapper of each value records its problem and lets kong continue. An unknown flag is
//     recorded and removed, and the arguments are parsed again.
//   - An empty variable counts as unset, and tests have their own environment. kong's env tag
//     is applied by Value.Reset, which calls os.LookupEnv and uses the empty text as a value:
//     a number would be malformed, and a default would be lost.
//   - Secrets are not printed. The errors of Value.Reset and of the enum tag quote any value.
//   - A problem names the variable, the flag and the remedy. kong's errors name the flag, and
//     those of decoders are Go's.
//   - Validate is called once for the whole configuration, after all values are read. A
//     [Selective] configuration also gets the chosen command. kong validates each embedded
//     struct in turn, stops at the first error, and does not pass the command on. For the same
//     reason the tags required and enum are checked here.
//   - --help and --version work despite mistakes. kong runs their hooks only if all arguments
//     are valid. The help of a command omits the configuration's flags, because kong would
//     print those of all parents.
package cli
