// Command images builds the container images of the services and of the stand-ins as OCI
// archives, a tar of an OCI image layout for each, without a container engine and without a
// registry:
//
//	images -version 0.1.0 -revision $(git rev-parse HEAD) -epoch $(git log -1 --format=%ct)
//
// Run it in the repository's root. An archive has an index with one image per platform.
// Each image has one layer: the static binary, and the licences of Penstock and of all that
// is linked into the binary (hack/notices.sh). Nothing in an archive
// depends on the time, the machine or the folder: the same commit and the same Go release
// give the same bytes.
//
// The project does not use ko, because ko takes its base image from a registry and writes
// archives of one platform only.
package main
