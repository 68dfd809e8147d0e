package proc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports that programs are given lie below the range from which the kernel
// takes a client's, so that none is lost between the look and the use.
const (
	firstPort = 21000
	ports     = 11000
)

// looked counts the ports that this process has looked at. Who was given one may
// take it much later, so nobody else is given the same meanwhile; another process
// begins elsewhere.
var (
	begin  = rand.Int64N(ports)
	looked atomic.Int64
)

// FreeAddress finds a loopback address, host and port, that nobody listens on. It
// gives none twice before it has been through all.
func FreeAddress() (string, error) {
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+(begin+looked.Add(1))%ports)
		var config net.ListenConfig
		listener, err := config.Listen(context.Background(), "tcp", address)
		if err != nil {
			continue
		}
		return address, listener.Close()
	}
	return "", fmt.Errorf("find a free port: all of %d to %d are taken", firstPort, firstPort+ports-1)
}
