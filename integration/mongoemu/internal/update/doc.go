// Package update compiles MongoDB updates and applies them to raw documents: replacement
// documents, update operators, and pipelines of the stages in [projection].
//
// Operators: $set $unset $inc $mul $min $max $setOnInsert $rename $currentDate $push
// (with $each $slice $position $sort) $addToSet (with $each) $pull $pullAll $pop. New
// fields are added in the order of their names, as in MongoDB since 5.0. Positional paths
// ($, $[], $[x]), $bit and arithmetic on Decimal128 are refused with an error that names
// them.
package update
