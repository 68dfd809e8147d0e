// Package projection reshapes documents: find's projection, and the stages
// $project, $addFields, $set, $unset, $replaceRoot and $replaceWith.
//
// Inclusion and exclusion by dotted path or nested document, through arrays, and
// computed fields. The projection operators $slice, $elemMatch, $meta and the
// positional $ are refused by name.
package projection
