// Package shadow handles the collections in which generations of read models are built:
// it creates them like the live ones, and renames them. Each function looks at what is
// there and can be repeated. A collection is recognised by its UUID, which a rename
// keeps: names can be taken again, UUIDs cannot.
package shadow
