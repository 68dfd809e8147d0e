// Package mongoemutest runs a stand-in for MongoDB for a test, and connects to it.
package mongoemutest
