// Package standin is what the commands of the stand-ins have in common: how they
// start, what they print, and how they end.
package standin
