package mongox_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// closedPort gives an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return l.Addr().String()
}

func TestConnectUnreachable(t *testing.T) {
	t.Parallel()
	uri := "mongodb://user:s3cret%21@" + closedPort(t) + "/?replicaSet=rs0&serverSelectionTimeoutMS=100"
	_, err := mongox.Connect(t.Context(), uri, mongox.Options{AppName: "test", MaxPoolSize: 3})
	if err == nil || !mongox.Transient(err) || !strings.Contains(err.Error(), "reach MongoDB at mongodb://***@127.0.0.1:") {
		t.Errorf("got %v", err)
	}
	for _, secret := range []string{"s3cret", "user"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q shows %q", err, secret)
		}
	}
}

func TestConnectHeedsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := mongox.Connect(ctx, "mongodb://"+closedPort(t), mongox.Options{})
	if err == nil || !mongox.Transient(err) || time.Since(start) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	client, err := mongox.Open("mongodb://127.0.0.1:1/?replicaSet=rs0", mongox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
}

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
