// Package images tests the container images of the services: that the archives of
// `make images` hold one static binary a platform and what a registry and the chart
// expect of an image; that a second build, of a copy of the tree in another folder,
// equals them byte for byte; that the programs run in a root that has nothing else,
// as the user that is no one. The Dockerfiles, which need an engine to be built, are
// held to the same configuration by their text.
//
// The tests of the archives skip without them: `make test-images` builds and names
// them. Those that need a root of their own skip where the test is not run by root.
package images
