// Package program is the main function that the commands of this module share: it handles
// signals, reports errors and exits.
package program
