// Package filter selects messages for subscriptions: by correlation, which
// compares properties to values, and by the part of SQL-92 that the service
// documents for rules: =, <>, !=, <, <=, >, >=, + - * / %, AND, OR, NOT, IN,
// LIKE with ESCAPE, EXISTS, IS [NOT] NULL, and parentheses, over application
// properties (name, user.name), system properties (sys.name) and literals.
//
// As in the service, logic is three-valued: what compares to a property that
// is not there is unknown, and a message matches only if all in all the
// expression is true. Names are not case-sensitive; text compares exactly.
// The grammar and its semantics are those of the documentation's page on the
// syntax of SQL filters.
//
// An [Action] changes the application properties of what a rule selects.
//
// Functions (newid, property), patterns of LIKE that are no literal, and actions
// on system properties, are not covered; an expression that uses them is refused, never ignored.
package filter
