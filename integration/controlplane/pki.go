package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity is the lifetime of certificates: longer than any run of tests.
const validity = 24 * time.Hour

// authority issues the certificates of one control plane.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// newAuthority makes an authority and writes <name>.crt into dir.
func newAuthority(dir, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	a := &authority{dir: dir, certificate: certificate, key: key, serial: 1}
	return a, writeCertificate(a.path(), certificate.Raw)
}

// path returns the file of the authority's own certificate.
func (a *authority) path() string {
	return filepath.Join(a.dir, a.certificate.Subject.CommonName+".crt")
}

// pair are the files of a certificate and its key.
type pair struct{ certificate, key string }

// issue makes a certificate for user, a member of those groups. It is for a client, or for
// a server on the loopback interface. issue writes it as <file>.crt and <file>.key.
func (a *authority) issue(file, user string, groups ...string) (pair, error) {
	return a.issueFor(nil, file, user, groups...)
}

// issueFor is issue for a server that also has those addresses and names.
func (a *authority) issueFor(hosts []string, file, user string, groups ...string) (pair, error) {
	files := pair{
		certificate: filepath.Join(a.dir, file+".crt"),
		key:         filepath.Join(a.dir, file+".key"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, fmt.Errorf("make the key of %s: %w", user, err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    a.certificate.NotBefore,
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return files, fmt.Errorf("make the certificate of %s: %w", user, err)
	}
	if err := writeCertificate(files.certificate, der); err != nil {
		return files, err
	}
	return files, writeKey(files.key, key)
}

// signingKey makes the key that signs and verifies service accounts' tokens.
func (a *authority) signingKey(file string) (path string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make the key of the tokens: %w", err)
	}
	path = filepath.Join(a.dir, file+".key")
	return path, writeKey(path, key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err == nil {
		err = keyutil.WriteKey(path, text)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeCertificate(path string, der []byte) error {
	if err := cert.WriteCert(path, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
