// Package mongoemutest runs mongoemu, the stand-in for MongoDB, for a test, and connects to
// it.
package mongoemutest
