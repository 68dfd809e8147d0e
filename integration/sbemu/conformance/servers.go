package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// The hosts are not 127.0.0.1, because a test of the SDK expects that nothing listens
// there.
const (
	standardHost = "127.0.0.2"
	premiumHost  = "127.0.0.3"
)

// serve starts the namespaces and the identity endpoint. It returns the environment of
// tests that use them, and a function that stops them.
func serve(dir string) ([]string, func(), error) {
	certificate, file, err := makeCertificate(dir)
	if err != nil {
		return nil, nil, err
	}

	var stops []func()

	stop := func() {
		for _, s := range stops {
			s()
		}
	}

	for _, host := range []string{standardHost, premiumHost} {
		srv, err := sbemu.New(namespace(host, certificate))
		if err == nil {
			err = srv.Start()
		}

		if srv != nil {
			stops = append(stops, func() { _ = srv.Close() })
		}

		if err != nil {
			stop()

			return nil, nil, fmt.Errorf("serve namespace on %s: %w", host, explain(err))
		}
	}

	identity, stopIdentity, err := serveIdentity()
	if err != nil {
		stop()

		return nil, nil, err
	}

	stops = append(stops, stopIdentity)

	return append(environment(),
		"SSL_CERT_FILE="+file,
		"IDENTITY_ENDPOINT="+identity,
	), stop, nil
}

// explain adds the remedy to an error of listening on a port.
func explain(err error) error {
	var remedy string

	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "stop what listens there"
	case errors.Is(err, syscall.EACCES):
		remedy = "run as root, or with the right to listen on ports below 1024"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "give the loopback interface that address"
	default:
		return err
	}

	return fmt.Errorf("%w: the ports 443, 5671 and 5672 of %s and %s are needed: %s", err, standardHost, premiumHost, remedy)
}

// keys are the shared access keys of both namespaces.
var keys = map[string]sbemu.Policy{
	"":             {Name: "RootManageSharedAccessKey", Key: "conformance-all", Manage: true},
	"_NO_MANAGE":   {Name: "NoManage", Key: "conformance-no-manage", Send: true, Listen: true},
	"_SEND_ONLY":   {Name: "SendOnly", Key: "conformance-send", Send: true},
	"_LISTEN_ONLY": {Name: "ListenOnly", Key: "conformance-listen", Listen: true},
}

func namespace(host string, certificate tls.Certificate) sbemu.Config {
	cfg := sbemu.Config{
		Address: host + ":5672",
		TLS: &sbemu.TLS{
			Config:       &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			Address:      host + ":5671",
			AdminAddress: host + ":443",
		},
		Premium: host == premiumHost,
		// These are the queues that the SDK's template for its tests creates.
		Queues: []sbemu.Queue{{Name: "testQueue"}, {Name: "testQueueWithSessions", RequiresSession: true}},
	}

	for _, p := range keys {
		cfg.Policies = append(cfg.Policies, p)
	}

	return cfg
}

// environment returns the variables that the SDK's live tests read.
func environment() []string {
	env := []string{
		"AZURE_RECORD_MODE=live",
		"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential",
		"IDENTITY_HEADER=conformance",
		"SERVICEBUS_ENDPOINT=" + standardHost,
		"SERVICEBUS_ENDPOINT_PREMIUM=" + premiumHost,
	}

	connect := func(host string, p sbemu.Policy) string {
		return fmt.Sprintf("Endpoint=sb://%s/;SharedAccessKeyName=%s;SharedAccessKey=%s", host, p.Name, p.Key)
	}

	for suffix, p := range keys {
		env = append(env, "SERVICEBUS_CONNECTION_STRING"+suffix+"="+connect(standardHost, p))
	}

	return append(env, "SERVICEBUS_CONNECTION_STRING_PREMIUM="+connect(premiumHost, keys[""]))
}

// makeCertificate makes a self-signed certificate for both hosts, and writes it to a file
// that clients can trust.
func makeCertificate(dir string) (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("generate key: %w", err)
	}

	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "sbemu conformance"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.ParseIP(standardHost), net.ParseIP(premiumHost)},
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("make certificate: %w", err)
	}

	file := filepath.Join(dir, "certificate.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return tls.Certificate{}, "", fmt.Errorf("write certificate: %w", err)
	}

	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file, nil
}

// serveIdentity serves tokens like the endpoint of a managed identity.
func serveIdentity() (string, func(), error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for identity: %w", err)
	}

	h := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		until := time.Now().Add(24 * time.Hour).Unix()

		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"access_token": token(until),
			"expires_on":   strconv.FormatInt(until, 10),
			"resource":     "https://servicebus.azure.net",
			"token_type":   "Bearer",
		})
	})}
	done := make(chan struct{})

	go func() {
		defer close(done)

		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "serve identity:", err)
		}
	}()

	return "http://" + l.Addr().String() + "/token", func() {
		_ = h.Close()
		<-done
	}, nil
}

// token returns a JSON web token without a valid signature.
func token(until int64) string {
	part := func(v any) string {
		b, _ := json.Marshal(v)

		return base64.RawURLEncoding.EncodeToString(b)
	}

	return part(map[string]string{"alg": "none", "typ": "JWT"}) + "." +
		part(map[string]any{"aud": "https://servicebus.azure.net", "exp": until}) + "."
}
