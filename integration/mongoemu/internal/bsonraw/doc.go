// Package bsonraw works on BSON documents as bytes: it validates them once at
// the border, walks them, compares their values in MongoDB's order, encodes
// values as byte strings whose order is that order, and builds new documents.
//
// Everything but [Validate] assumes bytes that [Validate] has accepted; on
// others it may panic.
package bsonraw
