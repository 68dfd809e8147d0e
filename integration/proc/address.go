package proc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports for programs lie below the range from which the kernel chooses ports of
// clients. So no client takes one between the check and its use.
const (
	firstPort = 21000
	ports     = 11000
)

// looked counts the ports that this process has checked. A program may bind its port much
// later, so no other program gets the same one meanwhile. Another process begins at another
// port.
var (
	begin  = rand.Int64N(ports)
	looked atomic.Int64
)

// FreeAddress returns a loopback address, host and port, on which no program listens. It
// returns no address twice before it has tried all ports.
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
