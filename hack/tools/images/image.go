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

// architectures of the images, all of them Linux's.
var architectures = []string{"amd64", "arm64"}

const (
	// user is numeric, user and group, so that a kubelet can see that it is not root.
	user = "65532:65532"
	// adminPort is the services' default one.
	adminPort = "8080/tcp"
)

// buildIndex compiles a service for each platform and makes the index of its images.
func buildIndex(ctx context.Context, s service, of release) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		binary, err := compile(ctx, s, of, arch)
		if err != nil {
			return nil, err
		}
		image, err := buildImage(s, of, arch, binary)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        untyped{image},
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, of.labels(s)).(v1.ImageIndex), nil
}

// untyped is an image whose entry in an index has no artifactType. What else would
// be there only repeats the media type of the configuration, and releases of skopeo
// and podman that do not know it drop it, which changes the index's digest.
type untyped struct{ v1.Image }

// ArtifactType is what go-containerregistry asks for.
func (untyped) ArtifactType() (string, error) { return "", nil }

// buildImage makes an image of nothing but the binary.
func buildImage(s service, of release, arch string, binary []byte) (v1.Image, error) {
	content, err := layerTar(s, of, binary)
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
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         user,
			ExposedPorts: map[string]struct{}{adminPort: {}},
			Entrypoint:   []string{"/" + s.name},
			Labels:       of.labels(s),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: created, CreatedBy: "COPY " + s.name + " /" + s.name},
	})
}

// layerTar is the layer: the binary in the root, root's own and not to be written to.
func layerTar(s service, of release, binary []byte) ([]byte, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	if err := w.WriteHeader(fileHeader(s.name, 0o555, int64(len(binary)), of)); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	return content.Bytes(), w.Close()
}
