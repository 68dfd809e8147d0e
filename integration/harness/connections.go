package harness

import "fmt"

// observerConnections is what a test itself needs beside the services, to read the
// topic.
const observerConnections = 1

// shareConnections divides the connections that a broker takes among the
// processes: how many each publisher and each projector may have. A standby holds
// none, but becomes a leader at any time. Without a bound both are 0: the services'
// own defaults.
func shareConnections(bound, publishers, projectors int) (publisher, projector int, err error) {
	if bound == 0 {
		return 0, 0, nil
	}
	// One is enough for a publisher: what it sends is pipelined. A projector accepts
	// one session after the other on a connection, so it gets all others.
	publisher = 1
	projector = (bound - observerConnections - publishers*publisher) / max(1, projectors)
	if projector < 1 {
		return 0, 0, fmt.Errorf("share %d connections: %d publishers, %d projectors and the test itself need more", bound, publishers, projectors)
	}
	return publisher, projector, nil
}
