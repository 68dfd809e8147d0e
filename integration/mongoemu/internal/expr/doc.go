// Package expr compiles and evaluates aggregation expressions over raw documents. It
// supports field paths, literals, documents, arrays, the variables $$ROOT, $$CURRENT,
// $$NOW, $$REMOVE and those that $let, $map and $filter bind, and the operators that the
// functions operators and compileOperator list. Any other operator is an error that names
// the operator.
package expr
