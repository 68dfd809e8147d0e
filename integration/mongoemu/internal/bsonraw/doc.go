// Package bsonraw works on BSON documents as bytes. It validates documents once, when
// they arrive, iterates over them, compares values in MongoDB's order, encodes values as
// byte strings that sort in that order, and builds new documents.
//
// All functions except [Validate] require bytes that Validate has accepted. They may
// panic on other bytes.
package bsonraw
