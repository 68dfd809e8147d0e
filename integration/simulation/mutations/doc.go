// Package mutations shows that simulations find defects: each entry of [Table] is a defect,
// and the histories of package simulation must fail with it.
//
// The defect is put into a copy of one file, which the compiler takes instead (go help build,
// -overlay), so the tree does not change:
//
//	make mutations             all of them, about a minute each
//	make mutations RUN=lease   those whose names match
package mutations
