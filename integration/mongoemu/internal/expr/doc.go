// Package expr compiles and evaluates aggregation expressions over raw
// documents: field paths, literals, documents, arrays, the variables $$ROOT,
// $$CURRENT, $$NOW, $$REMOVE and those that $let, $map, $filter bind, and the
// operators that the operators table lists. Any other operator is an error that
// names it.
package expr
