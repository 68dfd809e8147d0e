// Package program is what the commands of this module have in common: how they take
// signals, report errors and exit.
package program
