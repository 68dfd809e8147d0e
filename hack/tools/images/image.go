package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// architectures are the architectures of the images, all for Linux.
var architectures = []string{"amd64", "arm64"}

// user is the numeric user and group. A kubelet can verify only a numeric user as not root.
const user = "65532:65532"

// buildIndex compiles a program for each platform and returns the index of its images.
func buildIndex(ctx context.Context, p program, of release) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		files, err := compile(ctx, p, of, arch)
		if err != nil {
			return nil, err
		}
		image, err := buildImage(p, of, arch, files)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        untyped{image},
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, of.labels(p)).(v1.ImageIndex), nil
}

// untyped is an image whose entry in an index has no artifactType. The artifactType would
// only repeat the media type of the configuration. Older releases of skopeo and podman
// drop it, which changes the index's digest.
type untyped struct{ v1.Image }

// ArtifactType overrides the type that go-containerregistry writes into the index.
func (untyped) ArtifactType() (string, error) { return "", nil }

// file is a file of an image, from the root folder.
type file struct {
	name    string
	mode    int64
	content []byte
}

// buildImage returns an image that contains only these files.
func buildImage(p program, of release, arch string, files []file) (v1.Image, error) {
	content, err := layerTar(of, files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching,
	)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: of.created}
	ports := make(map[string]struct{})
	if p.port != "" {
		ports[p.port] = struct{}{}
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         user,
			ExposedPorts: ports,
			Entrypoint:   []string{"/" + p.name},
			Env:          p.env,
			Labels:       of.labels(p),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: created, CreatedBy: "COPY " + p.name + " licenses /"},
	})
}

// layerTar returns the layer: the files, read-only and owned by root.
func layerTar(of release, files []file) ([]byte, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, f := range files {
		if err := w.WriteHeader(fileHeader(f.name, f.mode, int64(len(f.content)), of)); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return content.Bytes(), w.Close()
}
