// Package model holds what the packages around a read model have in common: which read
// model is meant ([Unit]), what is stored for it ([State]), how it changes ([Write],
// [Written]), and what is known of it while it is parked ([Marker], [Position], [Head]).
//
// The engine folds, the store reads and writes, the parked list keeps markers. They do
// not know each other, but they pass the same values on, so the values are here and
// nobody copies them. The package has no behaviour of its own and imports BSON alone.
package model
