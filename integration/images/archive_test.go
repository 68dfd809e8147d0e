package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// descriptor, manifest and configuration have the fields of the image specification's
// JSON that these tests read. A manifest is used for an index, too.
type (
	descriptor struct {
		MediaType    string
		ArtifactType string
		Digest       string
		Size         int64
		Platform     struct{ OS, Architecture string }
		Annotations  map[string]string
	}
	manifest struct {
		SchemaVersion int
		MediaType     string
		Config        descriptor
		Layers        []descriptor
		Manifests     []descriptor
		Annotations   map[string]string
	}
	configuration struct {
		OS, Architecture string
		Created          time.Time
		Config           struct {
			User                 string
			Entrypoint, Cmd, Env []string
			Labels               map[string]string
			ExposedPorts         map[string]struct{}
		}
		RootFS struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
		History []struct{ Created time.Time }
	}
)

// entry is a file of a tar.
type entry struct {
	tar.Header

	content []byte
}

// archive is an OCI archive as stored in its file.
type archive struct {
	entries []entry
	// read has the names of the entries that were read.
	read map[string]bool
}

// archivePath returns the path of a program's archive from `make test-images`.
func archivePath(t *testing.T, program string) string {
	t.Helper()
	dir := os.Getenv("PENSTOCK_IMAGES")
	if dir == "" {
		t.Skip("PENSTOCK_IMAGES is not set: make test-images builds the archives and sets it to their folder")
	}
	return filepath.Join(dir, program+"-"+chartVersion(t)+".tar")
}

func openArchive(t *testing.T, path string) *archive {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &archive{entries: untar(t, content), read: make(map[string]bool)}
}

// untar reads a tar to its end.
func untar(t *testing.T, content []byte) []entry {
	t.Helper()
	var entries []entry
	r := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{Header: *header, content: file})
	}
}

// file returns a file of the archive.
func (a *archive) file(t *testing.T, name string) []byte {
	t.Helper()
	for _, e := range a.entries {
		if e.Name == name {
			a.read[name] = true
			return e.content
		}
	}
	t.Fatalf("the archive has no %s", name)
	return nil
}

// blob returns a descriptor's content, and checks its digest and size.
func (a *archive) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	content := a.file(t, "blobs/"+strings.Replace(d.Digest, ":", "/", 1))
	if digest(content) != d.Digest || int64(len(content)) != d.Size {
		t.Errorf("the blob %s has the digest %s, and %d bytes instead of %d", d.Digest, digest(content), len(content), d.Size)
	}
	return content
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func decode[T any](t *testing.T, content []byte) T {
	t.Helper()
	var decoded T
	if err := json.Unmarshal(content, &decoded); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
	return decoded
}

// images returns the descriptor of the layout's index, and the index.
func (a *archive) images(t *testing.T) (descriptor, manifest) {
	t.Helper()
	layout := decode[manifest](t, a.file(t, "index.json"))
	if len(layout.Manifests) != 1 {
		t.Fatalf("the layout has %d images, not one", len(layout.Manifests))
	}
	return layout.Manifests[0], decode[manifest](t, a.blob(t, layout.Manifests[0]))
}

// image is the image of one platform.
type image struct {
	manifest manifest
	config   configuration
	layer    []entry
}

// image reads an image of the index. The image must have one layer.
func (a *archive) image(t *testing.T, d descriptor) image {
	t.Helper()
	read := image{manifest: decode[manifest](t, a.blob(t, d))}
	read.config = decode[configuration](t, a.blob(t, read.manifest.Config))
	if len(read.manifest.Layers) != 1 || len(read.config.RootFS.DiffIDs) != 1 {
		t.Fatalf("the image has %d layers, and its configuration %d, not one", len(read.manifest.Layers), len(read.config.RootFS.DiffIDs))
	}
	compressed, err := gzip.NewReader(bytes.NewReader(a.blob(t, read.manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(compressed)
	if err != nil {
		t.Fatal(err)
	}
	if digest(layer) != read.config.RootFS.DiffIDs[0] {
		t.Errorf("the layer has the digest %s, not the configuration's %s", digest(layer), read.config.RootFS.DiffIDs[0])
	}
	read.layer = untar(t, layer)
	return read
}
