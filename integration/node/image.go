//go:build linux

package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
)

// Image describes a container image of some files of this machine, for tests.
type Image struct {
	// Name is the reference of the image in pods.
	Name string
	// Files maps paths in the image, without a leading slash, to paths on this machine. All
	// files are executable.
	Files map[string]string
	// Entrypoint is the program and its arguments.
	Entrypoint []string
}

// WriteArchive writes the image as an OCI archive for [Node.Import].
func (i Image) WriteArchive(file string) error {
	layer, err := i.layer()
	if err != nil {
		return fmt.Errorf("make the image %s: %w", i.Name, err)
	}
	blobs := make(map[string][]byte)
	put := func(content []byte) (digest string) {
		sum := sha256.Sum256(content)
		digest = hex.EncodeToString(sum[:])
		blobs["blobs/sha256/"+digest] = content
		return "sha256:" + digest
	}
	descriptor := func(mediaType string, content []byte) map[string]any {
		return map[string]any{"mediaType": "application/vnd.oci.image." + mediaType, "digest": put(content), "size": len(content)}
	}
	layerDescriptor := descriptor("layer.v1.tar", layer)
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": "65532:65532", "Entrypoint": i.Entrypoint, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layerDescriptor["digest"]}},
	})
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor("config.v1+json", config), "layers": []any{layerDescriptor},
	})
	top := descriptor("manifest.v1+json", manifest)
	top["annotations"] = map[string]string{"io.containerd.image.name": i.Name}
	blobs["index.json"] = encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []any{top},
	})
	blobs["oci-layout"] = encode(map[string]any{"imageLayoutVersion": "1.0.0"})
	var archive bytes.Buffer
	if err := writeTar(&archive, blobs); err != nil {
		return fmt.Errorf("make the image %s: %w", i.Name, err)
	}
	return os.WriteFile(file, archive.Bytes(), 0o600)
}

// layer is the tar file of the image's files.
func (i Image) layer() ([]byte, error) {
	content := map[string][]byte{"tmp/": nil}
	for name, file := range i.Files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		content[name] = data
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			content[folder+"/"] = nil
		}
	}
	var layer bytes.Buffer
	err := writeTar(&layer, content)
	return layer.Bytes(), err
}

// writeTar writes files sorted by name. A name that ends with a slash is a folder.
func writeTar(to io.Writer, files map[string][]byte) error {
	w := tar.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if name[len(name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	return w.Close()
}

// encode returns the JSON of a value whose encoding cannot fail.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
