package mongox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

func TestOpenRefusesMalformed(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"", "localhost:27017", "http://user:s3cret@host", "mongodb://user:s3cret@", "mongodb://user:s3cret/x@host:27017/",
		"mongodb://user:s3cret%zz@host", "mongodb://u:s3cret@host/?connectTimeoutMS=soon", "mongodb://u:s3cret@host:99999999",
		"mongodb://user:s3cret@host/?tlsCertificateKeyFilePassword=s3cret&tls=maybe",
	} {
		_, err := mongox.Open(uri, mongox.Options{})
		if err == nil || mongox.Transient(err) {
			t.Errorf("%s: got %v", uri, err)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q shows the password", err)
		}
		var inner interface{ Unwrap() error }
		if !errors.As(err, &inner) {
			t.Errorf("%v wraps nothing", err)
		}
	}
}

func TestUnsupportedOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for query, refused := range map[string]bool{
		"loadBalanced=true": true, "maxPoolSize=9": true, "authMechanism=GSSAPI": true,
		"": false, "maxPoolSize=0": false, "maxPoolSize=10": false, "loadBalanced=false": false, "directConnection=true": false, "tls=true": false,
		"timeoutMS=5000&retryWrites=false&w=1&readPreference=secondary&misspelt=x": false,
	} {
		client, err := mongox.Open("mongodb://u:s3cret@host/?"+query, mongox.Options{})
		if (err != nil) != refused || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", query, err)
		}
		if err == nil {
			if err := client.Disconnect(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
