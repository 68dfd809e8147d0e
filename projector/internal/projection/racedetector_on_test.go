//go:build race

package projection_test

// raceDetector reports whether the race detector is compiled in. It changes the number of
// allocations.
const raceDetector = true
