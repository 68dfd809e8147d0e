//go:build !race

package leader_test

// raceDetector says whether the tests run under it.
const raceDetector = false
