package proc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that programs are given lie below the range from which the kernel
// takes a client's, so that none is lost between the look and the use.
const firstPort, lastPort = 21000, 31999

// FreeAddress finds a loopback address, host and port, that nobody listens on.
func FreeAddress() (string, error) {
	for range lastPort - firstPort {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		var config net.ListenConfig
		listener, err := config.Listen(context.Background(), "tcp", address)
		if err != nil {
			continue
		}
		return address, listener.Close()
	}
	return "", fmt.Errorf("find a free port: all of %d to %d are taken", firstPort, lastPort)
}
