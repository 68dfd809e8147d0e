// Package update compiles and applies MongoDB updates to raw documents:
// replacement documents, update operators, and pipelines of the stages that
// [projection] knows.
//
// Operators: $set $unset $inc $mul $min $max $setOnInsert $rename $currentDate
// $push (with $each $slice $position $sort) $addToSet (with $each) $pull
// $pullAll $pop. New fields are added in the order of their names, as the server
// does since 5.0. Positional paths ($, $[], $[x]), $bit and arithmetic on
// Decimal128 are refused by name.
package update
