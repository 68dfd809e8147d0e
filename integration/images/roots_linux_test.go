package images_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// digicert is the name of the root of Azure's certificates.
var digicert = pkix.Name{
	Country: []string{"US"}, Organization: []string{"DigiCert Inc"}, OrganizationalUnit: []string{"www.digicert.com"}, CommonName: "DigiCert Global Root G2",
}

// The server's certificate names a public root as its issuer, but that root has not
// signed it. A program that has the root reports a wrong signature. A program without the
// root reports only an unknown authority.
func TestPublicRootsAreInTheImage(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			c := newContainer(t, service)
			server := listenTLS(t, digicert)
			c.write(t, "etc/penstock/projections/clocks.yaml", clocks, 0o444)
			log := c.start(t, server.environment(""))
			await(t, "a refused certificate", func() bool {
				return contains(t, log, "certificate signed by unknown authority")
			})
			if !contains(t, log, `while trying to verify candidate authority certificate \"`+digicert.CommonName) {
				t.Errorf("the program does not know %s", digicert.CommonName)
			}
		})
	}
}

// A mounted file makes the programs trust a private authority.
func TestMountedAuthorityIsTrusted(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			for name, own := range map[string]struct {
				parameters string
				env        []string
			}{
				"tlsCAFile":     {"&tlsCAFile=/etc/authority/ca.crt", nil},
				"SSL_CERT_FILE": {"", []string{"SSL_CERT_FILE=/etc/authority/ca.crt"}},
			} {
				t.Run(name, func(t *testing.T) {
					c := newContainer(t, service)
					server := listenTLS(t, pkix.Name{CommonName: "Authority of one's own"})
					c.write(t, "etc/penstock/projections/clocks.yaml", clocks, 0o444)
					c.write(t, "etc/authority/ca.crt", server.authority, 0o444)
					c.start(t, append(server.environment(own.parameters), own.env...))
					select {
					case <-server.trusted:
					case <-time.After(timeout):
						t.Errorf("the certificate is not accepted within %s", timeout)
					}
				})
			}
		})
	}
}

// tlsServer stands in for MongoDB up to the end of the TLS handshake.
type tlsServer struct {
	address string
	// authority is the certificate of the server certificate's issuer, in PEM.
	authority string
	// trusted is closed when a client has accepted the server's certificate.
	trusted chan struct{}
}

// listenTLS starts a server whose certificate is issued by an authority with the name
// issuer.
func listenTLS(t *testing.T, issuer pkix.Name) *tlsServer {
	t.Helper()
	authority, authorityKey := certificate(t, &x509.Certificate{Subject: issuer, IsCA: true, BasicConstraintsValid: true}, nil, nil)
	leaf, key := certificate(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, authority, authorityKey)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &tlsServer{
		address:   listener.Addr().String(),
		authority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})),
		trusted:   make(chan struct{}),
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		accepted := false
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// In TLS 1.3 the server's handshake ends with the client's last message. The
			// client does not send it if it does not trust the server.
			_ = conn.SetDeadline(time.Now().Add(timeout))
			if conn.(*tls.Conn).HandshakeContext(t.Context()) == nil && !accepted {
				accepted = true
				close(s.trusted)
			}
			_ = conn.Close()
		}
	}()
	return s
}

// environment configures either service to use the server as MongoDB.
func (s *tlsServer) environment(parameters string) []string {
	return []string{
		"MONGODB_URI=mongodb://" + s.address + "/?replicaSet=rs0&tls=true&serverSelectionTimeoutMS=1000" + parameters,
		"AZURE_SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true",
		"AZURE_SERVICEBUS_TOPIC_NAME=events", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME=projector",
		"PENSTOCK_PROJECTIONS=/etc/penstock/projections/clocks.yaml", "PENSTOCK_ELECTION=mongodb", "PENSTOCK_ADMIN_ADDRESS=127.0.0.1:0",
	}
}

// certificate issues a certificate, which is self-signed if there is no issuer.
func certificate(t *testing.T, template, issuer *x509.Certificate, issuerKey crypto.Signer) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if issuer == nil {
		issuer, issuerKey = template, key
	}
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return issued, key
}
