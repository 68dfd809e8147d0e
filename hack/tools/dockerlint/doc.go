// Command dockerlint checks Dockerfiles by the rules of BuildKit, which are those of
// `docker build --check`, without a container engine and without a registry:
//
//	dockerlint publisher/Dockerfile projector/Dockerfile
//
// It prints each finding with its rule and lines, and exits 1 if there is one. Not
// checked, because it needs the network or a shell's grammar: whether a base image
// exists, what the scripts of RUN do, and whether .dockerignore excludes a copied file.
package main
