// Package bench measures the two services as processes over the stand-ins, each
// beside the plain loop that a first version of it would have: send one event,
// wait, save the token; receive one message, update one document, complete it.
// Both run in the same measurement, over the same broker with the same added
// latency, so that what counts is the ratio. Run it with `make bench`.
//
// BenchmarkSessions measures the two session receivers alone, without a database.
package bench
