// Package images tests the container images of the services. The archives of
// `make images` must hold one static binary per platform, its licences, and what a registry and the
// chart expect of an image. A second build, from a copy of the tree in another folder,
// must give the same bytes. The programs must run as an unprivileged user in a root with
// no other files. Building the Dockerfiles needs a container engine, so a test compares
// their text with the same configuration.
//
// The tests of the archives skip if there are no archives: `make test-images` builds
// them and passes their paths. The tests that need their own root skip unless they run
// as root.
package images
