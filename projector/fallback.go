package main

// An image of this program holds nothing else: it brings along the time zones and
// the root certificates of public authorities. Those of the system, or of
// SSL_CERT_FILE and SSL_CERT_DIR, go before these where there are any.
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
