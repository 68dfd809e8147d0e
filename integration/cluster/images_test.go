//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/penstock-cdc/penstock/integration/node"
)

// The tests' own images.
const (
	standInImage = "penstock.local/standins:1"
	curlImage    = "penstock.local/curl:v1"
	curlTag      = "v1"
)

// services are the repositories of the services' images.
var services = []string{"ghcr.io/penstock-cdc/publisher", "ghcr.io/penstock-cdc/projector"}

// importImages loads the services' images as they are released, the stand-ins, and the
// programs that `helm test` needs.
func importImages(ctx context.Context) error {
	archives, err := filepath.Glob(filepath.Join(os.Getenv(imagesVariable), "*.tar"))
	if err != nil {
		return err
	}
	if len(archives) < len(services) {
		return fmt.Errorf("find the services' images: %s names %q, which has %d archives; make test-cluster builds them", imagesVariable, os.Getenv(imagesVariable), len(archives))
	}
	programs, err := machinePrograms("sh", "curl", "date", "grep", "sleep", "cat")
	if err != nil {
		return err
	}
	for _, image := range []node.Image{
		{Name: curlImage, Files: programs, Entrypoint: []string{"/bin/sh"}},
		{Name: standInImage, Entrypoint: []string{"/bin/mongoemu"}, Files: map[string]string{
			"bin/mongoemu": filepath.Join(suite.tools, "mongoemu"), "bin/sbemu": filepath.Join(suite.tools, "sbemu"),
		}},
	} {
		archive := filepath.Join(suite.dir, strings.ReplaceAll(image.Name, "/", "-")+".tar")
		if err := image.WriteArchive(archive); err != nil {
			return err
		}
		archives = append(archives, archive)
	}
	for _, archive := range archives {
		if err := suite.node.Import(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// library matches a line of ldd's output.
var library = regexp.MustCompile(`(/\S+) \(0x`)

// machinePrograms returns programs of this machine with the libraries that they load, by
// their paths in an image.
func machinePrograms(names ...string) (map[string]string, error) {
	files := make(map[string]string)
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("find a program for helm test: %w", err)
		}
		files["bin/"+name] = path
		libraries, err := exec.Command("ldd", path).Output()
		if err != nil {
			return nil, fmt.Errorf("list the libraries of %s: %w", path, err)
		}
		for _, match := range library.FindAllStringSubmatch(string(libraries), -1) {
			files[strings.TrimPrefix(match[1], "/")] = match[1]
		}
	}
	return files, nil
}
