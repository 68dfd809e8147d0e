// Package query compiles MongoDB filters and matches raw documents with them.
//
// It supports equality and $eq $ne $gt $gte $lt $lte $in $nin $exists $type $size $all
// $elemMatch $mod $regex/$options $not, and $and $or $nor $expr $jsonSchema $comment at
// the top of a document. Values compare in BSON order if their types have the same
// bracket. Dotted paths pass through arrays. null matches absent fields. Regular
// expressions use Go's syntax: a pattern with back-references or look-around is refused.
// Every other operator is an error that names the operator.
package query
