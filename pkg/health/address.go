package health

import (
	"context"
	"net"
)

// ValidAddress reports whether an address has the form [HOST]:PORT, with a port that exists.
// It does not look up the host.
func ValidAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	return err == nil
}
