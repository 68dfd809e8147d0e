package harness

import "fmt"

// observerConnections is how many connections the test needs beside the services, to read
// the topic.
const observerConnections = 1

// shareConnections divides the connections that a broker accepts: it returns how many each
// publisher and each projector may have. A standby holds none, but can become the leader at
// any time. Without a bound both are 0, which means the services' own defaults.
func shareConnections(bound, publishers, projectors int) (publisher, projector int, err error) {
	if bound == 0 {
		return 0, 0, nil
	}
	// One connection is enough for a publisher, because it pipelines its sends. A projector
	// accepts sessions on a connection one after the other, so the projectors get all other
	// connections.
	publisher = 1
	projector = (bound - observerConnections - publishers*publisher) / max(1, projectors)
	if projector < 1 {
		return 0, 0, fmt.Errorf("share %d connections: %d publishers, %d projectors and the test itself need more", bound, publishers, projectors)
	}
	return publisher, projector, nil
}
