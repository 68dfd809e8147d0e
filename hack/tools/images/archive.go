package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// buildArchive builds a program's image into an archive at path. It returns the digest
// that the image will have in a registry.
func buildArchive(ctx context.Context, p program, of release, path string) (v1.Hash, error) {
	tag, err := p.tag(of)
	if err != nil {
		return v1.Hash{}, err
	}
	index, err := buildIndex(ctx, p, of)
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(dir)
	folder, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write the layout: %w", err)
	}
	// The first annotation is from the specification; skopeo finds an image by it. The
	// second is the name that docker, podman and containerd give the image when they load
	// it.
	err = folder.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		"io.containerd.image.name":          tag.Name(),
	}))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write the layout: %w", err)
	}
	return digest, writeArchive(os.DirFS(dir), of, path)
}

// tag returns the name of a program's image.
func (p program) tag(of release) (name.Tag, error) {
	tag, err := name.NewTag(p.repository()+":"+of.version, name.StrictValidation)
	if err != nil {
		return name.Tag{}, fmt.Errorf("name the image: %w", err)
	}
	return tag, nil
}

// writeDocker writes the images of this machine's architecture in the format that the
// classic image store of Docker reads.
func writeDocker(ctx context.Context, of release, w io.Writer) error {
	images := make(map[name.Tag]v1.Image)
	for _, p := range programs {
		tag, err := p.tag(of)
		if err != nil {
			return err
		}
		files, err := compile(ctx, p, of, runtime.GOARCH)
		if err != nil {
			return err
		}
		if images[tag], err = buildImage(p, of, runtime.GOARCH, files); err != nil {
			return err
		}
	}
	return tarball.MultiWrite(images, w)
}

// writeArchive packs the files of a layout, in the order of their names. It replaces a
// file at path only after the new archive is complete.
func writeArchive(files fs.FS, of release, path string) error {
	out, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	w := tar.NewWriter(out)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(fileHeader(name, 0o644, int64(len(content)), of)); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := out.Chmod(0o644); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

// fileHeader returns the header of a file that root owns. It sets no other fields.
func fileHeader(name string, mode, size int64, of release) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: of.created, Format: tar.FormatUSTAR,
	}
}
