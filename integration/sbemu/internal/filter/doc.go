// Package filter selects messages for subscriptions. A correlation filter compares
// properties to values. A SQL filter uses the part of SQL-92 that the service
// documents for rules: =, <>, !=, <, <=, >, >=, + - * / %, AND, OR, NOT, IN,
// LIKE with ESCAPE, EXISTS, IS [NOT] NULL, and parentheses, over application
// properties (name, user.name), system properties (sys.name) and literals.
//
// As in the service, logic is three-valued: a comparison to a missing property is
// unknown, and a message matches only if the whole expression is true. Names are
// not case-sensitive; text compares exactly. The grammar and its semantics follow
// the documentation's page on the syntax of SQL filters.
//
// An [Action] changes the application properties of the messages that a rule selects.
//
// Functions (newid, property), non-literal LIKE patterns, and actions on system
// properties are not supported. An expression that uses them is refused, never ignored.
package filter
