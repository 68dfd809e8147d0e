package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/platforms"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// lint prints the findings of a file and reports whether there are any.
func lint(ctx context.Context, path string, content []byte, out io.Writer) (found bool, err error) {
	if strings.TrimSpace(string(content)) == "" {
		return false, fmt.Errorf("the file is empty")
	}
	source := llb.NewSourceMap(nil, path, "Dockerfile", content)
	source.Definition = &llb.Definition{} // copied into the results, so it must not be nil
	results, err := dockerfile2llb.DockerfileLint(ctx, content, dockerfile2llb.ConvertOpt{
		SourceMap:    source,
		MetaResolver: anyImage{},
	})
	if err != nil {
		return false, fmt.Errorf("apply the rules: %w", err)
	}
	if err := results.PrintTo(out, nil); err != nil {
		return false, fmt.Errorf("print the findings: %w", err)
	}
	results.PrintErrorTo(out, nil)
	return len(results.Warnings) > 0 || results.Error != nil, nil
}

// anyImage resolves every base image, so no registry is queried. Each image exists for
// the platform that the Dockerfile requests, and its configuration is empty.
type anyImage struct{}

var _ llb.ImageMetaResolver = anyImage{}

func (anyImage) ResolveImageConfig(_ context.Context, ref string, options sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	image := ocispecs.Image{Platform: platforms.DefaultSpec()}
	if o := options.ImageOpt; o != nil && o.Platform != nil {
		image.Platform = *o.Platform
	}
	content, err := json.Marshal(image)
	if err != nil {
		return "", "", nil, fmt.Errorf("write the configuration of %s: %w", ref, err)
	}
	return ref, "", content, nil
}
