// Package mongoerr defines the errors that replies carry: code, code name and message,
// and the names of the error labels.
package mongoerr
