// Package query compiles MongoDB filters and matches raw documents with them.
//
// Covered: equality and $eq $ne $gt $gte $lt $lte $in $nin $exists $type $size
// $all $elemMatch $mod $regex/$options $not, and $and $or $nor $expr $comment
// at the top of a document. Values compare in BSON order within their type's
// bracket; dotted paths pass through arrays; null matches what is absent.
// Regular expressions are Go's: a pattern that needs back-references or
// look-around is refused. Every other operator is an error that names it.
package query
