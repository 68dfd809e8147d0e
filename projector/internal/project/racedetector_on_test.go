//go:build race

package project_test

// raceDetector says that the race detector is compiled in. It changes allocations.
const raceDetector = true
