// Package backoff spaces the attempts of something that fails and may yet succeed.
package backoff
