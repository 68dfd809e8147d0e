// Command projector is an example of a projector with a projection in Go. It takes the same
// settings and has the same commands as Penstock's own projector, and also runs the
// projections of PENSTOCK_PROJECTIONS, if that is set.
//
// A projection in Go can do what CEL cannot, such as the tiers of a discount here. It must
// be pure: the same document and the same event always give the same result, without a
// clock, a network or randomness. Otherwise a rebuild gives another result than the live
// events did.
package main
