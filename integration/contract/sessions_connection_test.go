package contract_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

// TestSessionsShareAConnection: many sessions use one connection, and their renewals do not
// wait for each other.
func TestSessionsShareAConnection(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		sdk := e.client()
		s := e.sender(sdk, "events")

		const n = 100
		for i := range n {
			e.send(s, fmt.Sprint("s", i), fmt.Sprint(i))
		}

		must(t, s.Close(e.ctx))
		must(t, sdk.Close(e.ctx))
		synctest.Wait()

		c := e.connection()
		held := make([]*sessions.Session, n)

		var all sync.WaitGroup

		for i := range held {
			all.Go(func() {
				var err error
				if held[i], err = c.Accept(e.ctx, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}

		all.Wait()
		equal(t, "connections", len(e.Connections()), 1)
		must(t, held[0].RenewSessionLock(e.ctx, nil))
		e.SetLatency(50*time.Millisecond, 50*time.Millisecond)

		start := time.Now()

		for _, r := range held {
			all.Go(func() {
				if err := r.RenewSessionLock(e.ctx, nil); err != nil {
					t.Error(err)
				}
			})
		}

		all.Wait()
		equal(t, "time of all renewals", time.Since(start), 100*time.Millisecond)
	})
}

// TestSessionsRenewAfterALongSilence: the broker detaches the management link after ten
// minutes without a request.
func TestSessionsRenewAfterALongSilence(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Topics[0].Subscriptions[0].LockDuration = 5 * time.Minute

	virtual(t, cfg, func(e *env) {
		t := e.t
		s := e.sender(e.client(), "events")
		e.send(s, "a", "1")

		c := e.connection()
		a, err := c.Accept(e.ctx, time.Second)
		must(t, err)
		must(t, a.RenewSessionLock(e.ctx, nil))
		must(t, a.Close(e.ctx))

		a, err = c.Accept(e.ctx, time.Second)
		must(t, err)
		must(t, a.CompleteMessage(e.ctx, e.take(a, 1)[0], nil))
		must(t, a.Close(e.ctx))

		for range 15 {
			if _, err := c.Accept(e.ctx, time.Minute); !errors.Is(err, sessions.ErrNoSession) {
				t.Fatal(err)
			}
		}

		e.send(e.sender(e.client(), "events"), "b", "2")

		b, err := c.Accept(e.ctx, time.Second)
		must(t, err)
		must(t, b.RenewSessionLock(e.ctx, nil))
	})
}

// TestSessionsRenewWithoutTheirRequestLink: the broker detaches the link that sends requests
// to the management node, and leaves the link of the replies. No session of the connection
// loses its lock.
func TestSessionsRenewWithoutTheirRequestLink(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		s := e.sender(e.client(), "events")
		e.send(s, "a", "1")
		e.send(s, "b", "2")

		c := e.connection()
		held := make([]*sessions.Session, 2)

		for i := range held {
			var err error
			held[i], err = c.Accept(e.ctx, time.Second)
			must(t, err)
			must(t, held[i].RenewSessionLock(e.ctx, nil))
		}

		must(t, e.DetachLinks(queue+"/$management", "amqp:link:detach-forced"))
		wait(time.Second)

		for _, r := range held {
			must(t, r.RenewSessionLock(e.ctx, nil))
			must(t, r.Close(e.ctx))
		}
	})
}

// TestSessionsReconnect: a lost connection ends its sessions immediately, and the next
// accept makes a new one.
func TestSessionsReconnect(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		s := e.sender(e.client(), "events")
		c := e.connection()

		for round := range 5 {
			e.send(s, "a", fmt.Sprint(round))

			r, err := c.Accept(e.ctx, time.Second)
			must(t, err)

			m := e.take(r, 1)[0]
			if round > 0 {
				equal(t, "delivery count", m.DeliveryCount, 1)
			}

			e.DropConnections(func(c sbemu.Connection) bool { return len(c.SendsTo) == 0 })

			if got, err := r.ReceiveMessages(e.ctx, 1, nil); len(got) > 0 || sbus.Classify(err) != sbus.ClassConnectionLost {
				t.Fatalf("received %v, %v", ids(got), err)
			}

			for what, err := range map[string]error{
				"settle": r.CompleteMessage(e.ctx, m, nil),
				"renew":  r.RenewSessionLock(e.ctx, nil),
				"close":  r.Close(e.ctx),
			} {
				if sbus.Classify(err) != sbus.ClassConnectionLost {
					t.Errorf("%s: %v", what, err)
				}
			}

			again, err := c.Accept(e.ctx, time.Second)
			must(t, err)

			for _, m := range e.take(again, 1) {
				must(t, again.CompleteMessage(e.ctx, m, nil))
			}

			must(t, again.Close(e.ctx))
		}
	})
}

// silent is a connection that can stop carrying data without an error.
type silent struct {
	net.Conn
	mute <-chan struct{}
}

func (s silent) Write(b []byte) (int, error) {
	select {
	case <-s.mute:
		return len(b), nil
	default:
		return s.Conn.Write(b)
	}
}

// muted returns a connection that carries no data in either direction after mute is closed.
func muted(server net.Conn, mute <-chan struct{}) net.Conn {
	client, inner := net.Pipe()

	go func() {
		defer server.Close()

		_, _ = io.Copy(silent{server, mute}, inner)
	}()
	go func() {
		defer inner.Close()

		_, _ = io.Copy(silent{inner, mute}, server)
	}()

	return client
}

// connectionThatEnds makes a connection whose peer sends nothing any more once mute is closed.
func (e *env) connectionThatEnds(mute chan struct{}) *sessions.Connection {
	return e.connection(func(o *sessions.Options) {
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := e.dial(ctx)
			if err != nil {
				return nil, err
			}

			return muted(conn, mute), nil
		}
	})
}

// TestSessionsEndASilentConnection: a peer that sends nothing for a minute is dead, and
// Close does not wait for it.
func TestSessionsEndASilentConnection(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1")

		mute := make(chan struct{})
		c := e.connectionThatEnds(mute)
		r, err := c.Accept(e.ctx, time.Second)
		must(t, err)
		must(t, r.CompleteMessage(e.ctx, e.take(r, 1)[0], nil))
		close(mute)

		start := time.Now()
		ctx, cancel := context.WithTimeout(e.ctx, 3*time.Second)
		defer cancel()

		if err := r.RenewSessionLock(ctx, nil); sbus.Classify(err) != sbus.ClassTimeout {
			t.Fatalf("renewed over a silent connection: %v", err)
		}

		if _, err := r.ReceiveMessages(e.ctx, 1, nil); sbus.Classify(err) != sbus.ClassConnectionLost {
			t.Fatalf("received over a silent connection: %v", err)
		}

		if took := time.Since(start); took > time.Minute {
			t.Fatalf("noticed after %s", took)
		}
	})
}

// TestSessionsCloseInTime: Close returns when its context ends, whatever the peer does.
func TestSessionsCloseInTime(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1")

		mute := make(chan struct{})
		c := e.connectionThatEnds(mute)
		r, err := c.Accept(e.ctx, time.Second)
		must(t, err)

		waiting := make(chan error, 1)

		go func() {
			_, err := c.Accept(context.Background(), time.Minute)
			waiting <- err
		}()

		wait(time.Second)
		close(mute)

		ctx, cancel := context.WithTimeout(e.ctx, time.Second)
		defer cancel()

		start := time.Now()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("session closed over a silent connection: %v", err)
		}

		ctx, cancel = context.WithTimeout(e.ctx, time.Second)
		defer cancel()

		_ = c.Close(ctx)

		if took := time.Since(start); took > 4*time.Second {
			t.Fatalf("closed after %s", took)
		}

		if err := <-waiting; err == nil {
			t.Fatal("accepted over a closed connection")
		}

		if _, err := c.Accept(e.ctx, time.Second); !errors.Is(err, sessions.ErrClosed) || sbus.Classify(err) != sbus.ClassStopped {
			t.Fatalf("accepted over a closed connection: %v", err)
		}
	})
}

// TestSessionsReportAFailedConnectionToAllCallers: all callers that wait for it get the
// error, and the next call tries again.
func TestSessionsReportAFailedConnectionToAllCallers(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		dials := 0
		refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		c := e.connection(func(o *sessions.Options) {
			o.Dial = func(ctx context.Context) (net.Conn, error) {
				dials++
				wait(time.Second)

				if dials == 1 {
					return nil, refused
				}

				return e.dial(ctx)
			}
		})

		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := c.Accept(e.ctx, time.Second); !errors.Is(err, refused) || sbus.Classify(err) != sbus.ClassConnectionLost {
					t.Errorf("error is %v", err)
				}
			})
		}

		all.Wait()
		equal(t, "dials", dials, 1)

		if _, err := c.Accept(e.ctx, time.Second); !errors.Is(err, sessions.ErrNoSession) {
			t.Error(err)
		}

		equal(t, "dials", dials, 2)
	})
}

// certificate makes a self-signed certificate for 127.0.0.1, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)

	parsed, err := x509.ParseCertificate(der)
	must(t, err)

	trust := x509.NewCertPool()
	trust.AddCert(parsed)

	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, trust
}

// TestSessionsSpeakTLS connects over a socket, at the port of the connection string, and
// refuses a server with an untrusted certificate.
func TestSessionsSpeakTLS(t *testing.T) {
	t.Parallel()

	own, trust := certificate(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	must(t, err)

	cfg := sbemu.Default()
	cfg.Listener = listener
	e := serve(t, cfg, nil)

	namespace, err := sbus.Open(sbus.Config{
		ConnectionString: secret.Text(strings.Replace(e.ConnectionString(), "UseDevelopmentEmulator=true", "", 1)), Topic: "events",
	})
	must(t, err)

	c := e.connection(func(o *sessions.Options) {
		o.Namespace, o.TLS = namespace, &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
	})
	for range 2 {
		if _, err := c.Accept(e.ctx, 10*time.Millisecond); !errors.Is(err, sessions.ErrNoSession) {
			t.Fatal(err)
		}
	}

	stranger := e.connection(func(o *sessions.Options) { o.Namespace = namespace })

	var unknown *tls.CertificateVerificationError
	if _, err := stranger.Accept(e.ctx, time.Second); !errors.As(err, &unknown) {
		t.Fatalf("error is %v", err)
	}
}
