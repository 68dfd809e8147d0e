// Package mongoerr is the server's errors: code, code name, message and labels,
// as a reply carries them.
package mongoerr
