// Package fold has what a fold does to a document, without the language in which projections are
// declared: package projection compiles the rules and evaluates their expressions, and applies
// the results here. All of it is pure, and works on BSON in place.
//
//   - A [Document] is a read model while events are folded into it. [Document.Update] is the
//     smallest update that stores the result.
//   - A [View] makes the documents of a view from the parts of many aggregates.
//   - A [Number] is a BSON number of any kind. Decimal128s are computed exactly ([Exact]), and
//     rounded once. No library is used: those that were tried round a quotient twice if it is
//     below the least normal number, and add numbers of distant exponents with thousands of digits.
//
// # Files
//
//	documents  document, update, keys, size
//	views      viewdocument, viewfold, list, total, keyedtotal
//	values     fields, compare, number, decimal, rounding
package fold
