package mongoemu_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// Invalid messages end only the connection on which they were sent.
func TestMalformedPeers(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	cs := watch(t, c, inserts)
	other := dialRaw(t, s)
	other.run("db", d("ping", 1))
	header := func(length, opcode uint32) string {
		b := binary.LittleEndian.AppendUint32(nil, length)
		b = append(b, make([]byte, 8)...)
		return string(binary.LittleEndian.AppendUint32(b, opcode))
	}
	for name, sent := range map[string]string{
		"nothing":              "",
		"HTTP":                 "GET / HTTP/1.1\r\n\r\n",
		"half a header":        "\x10\x00",
		"less than a header":   header(3, 2013),
		"2 GiB":                header(1<<31-1, 2013),
		"negative length":      header(1<<31, 2013),
		"half a message":       header(100, 2013) + "\x00\x00\x00\x00\x00",
		"unknown opcode":       header(21, 7) + "\x05\x00\x00\x00\x00",
		"unknown flags":        header(26, 2013) + "\x04\x00\x00\x00\x00\x05\x00\x00\x00\x00",
		"no body":              header(20, 2013) + "\x00\x00\x00\x00",
		"a document too long":  header(26, 2013) + "\x00\x00\x00\x00\x00\xff\xff\xff\x7f\x00",
		"a document cut short": header(26, 2013) + "\x00\x00\x00\x00\x00\x05\x00\x00\x00\x02",
		"a wrong checksum":     header(30, 2013) + "\x01\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		peer, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(peer, sent); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(peer.(*net.TCPConn).CloseWrite(), peer.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		// The connection may be reset, because not all bytes were read.
		if answer, err := io.ReadAll(peer); len(answer) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: answered with %q, %v", name, answer, err)
		}
		_ = peer.Close()
	}
	if r := other.run("db", d("ping", 1)); get(r, "ok") != 1.0 {
		t.Error(r)
	}
	insertOne(t, c, "_id", 1)
	next(t, cs)
}
