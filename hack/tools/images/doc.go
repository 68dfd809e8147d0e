// Command images builds the services' container images as OCI archives, a tar of an
// OCI image layout for each service, without a container engine and without a
// registry:
//
//	images -version 0.1.0 -revision $(git rev-parse HEAD) -epoch $(git log -1 --format=%ct)
//
// It is run in the repository's root. An image is an index of one image a platform,
// and such an image has one layer with one file, the static binary. Nothing in an
// archive depends on the time, the machine or the folder: the same commit and the
// same Go release make the same bytes.
//
// It is not ko because ko takes its base from a registry and writes archives of one
// platform only.
package main
