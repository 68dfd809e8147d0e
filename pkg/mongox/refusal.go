package mongox

import (
	"errors"
	"strings"
)

// AccessRefused reports whether MongoDB, or the proxy of Atlas, refuses the credentials or a
// right. It is also true for a request that got no connection because the driver had
// emptied its pool after refused credentials. That error has no code, and of several
// concurrent requests only one gets the refusal itself.
func AccessRefused(err error) bool {
	if HasCode(err, CodeUnauthorized, CodeAuthenticationFailed, CodeAtlasError) {
		return true
	}
	// The driver exports neither the error of a cleared pool nor its reason. Its text has
	// the reason, with the name of the code.
	var pool interface {
		error
		Retryable() bool
	}
	return errors.As(err, &pool) && strings.Contains(pool.Error(), "(AuthenticationFailed)")
}
