// Package projection reshapes documents: the projection of find, and the stages $project,
// $addFields, $set, $unset, $replaceRoot and $replaceWith.
//
// It supports inclusion and exclusion by dotted path or nested document, also through
// arrays, and computed fields. It refuses the projection operators $slice, $elemMatch,
// $meta and the positional $ with an error that names the operator.
package projection
