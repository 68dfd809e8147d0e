//go:build race

package leader_test

// raceDetector reports whether the tests run under it.
const raceDetector = true
