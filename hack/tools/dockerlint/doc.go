// Command dockerlint checks Dockerfiles by the rules of BuildKit, which are those of
// `docker build --check`, without a container engine and without a registry:
//
//	dockerlint publisher/Dockerfile projector/Dockerfile
//
// It prints each finding with its rule and lines, and exits with status 1 if there is a
// finding. It does not check whether a base image exists, what the scripts of RUN do, or
// whether .dockerignore excludes a copied file. These checks need the network or a
// shell's grammar.
package main
