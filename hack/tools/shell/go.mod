// The shell of the images of make test-containers.
module github.com/penstock-cdc/penstock/hack/tools/shell

go 1.26.0

tool mvdan.cc/sh/v3/cmd/gosh

require (
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/term v0.45.0 // indirect
	mvdan.cc/sh/v3 v3.14.1 // indirect
)
