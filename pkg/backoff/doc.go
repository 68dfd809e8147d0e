// Package backoff spaces the attempts of something that fails for now.
package backoff
