package images_test

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// The media types of the image specification that an archive contains.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// machines are the machine types in executables, by platform.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func TestArchiveHasTheImages(t *testing.T) {
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			a := openArchive(t, archivePath(t, program))
			if layout := decode[map[string]string](t, a.file(t, "oci-layout")); layout["imageLayoutVersion"] != "1.0.0" {
				t.Errorf("the layout's version is %q", layout)
			}
			described, index := a.images(t)
			name := map[string]string{
				"io.containerd.image.name":          imageName(t, program) + ":" + chartVersion(t),
				"org.opencontainers.image.ref.name": chartVersion(t),
			}
			if described.MediaType != indexType || !maps.Equal(described.Annotations, name) {
				t.Errorf("the archive has a %s with %v, not an index with %v", described.MediaType, described.Annotations, name)
			}
			var platforms []string
			for _, d := range index.Manifests {
				platforms = append(platforms, d.Platform.OS+"/"+d.Platform.Architecture)
				checkImage(t, program, a.image(t, d), d)
				// Older releases of skopeo and podman drop an artifact type, which
				// changes the index's digest.
				if d.MediaType != manifestType || d.ArtifactType != "" {
					t.Errorf("the index has a %s of the type %q", d.MediaType, d.ArtifactType)
				}
			}
			if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
				t.Errorf("the platforms are %q", platforms)
			}
			created := checkLabels(t, program, index.Annotations)
			for _, e := range a.entries {
				if !a.read[e.Name] {
					t.Errorf("nothing refers to the archive's %s", e.Name)
				}
				checkEntry(t, e, 0o644, created)
			}
		})
	}
}

// checkImage checks a platform's image.
func checkImage(t *testing.T, program string, i image, d descriptor) {
	t.Helper()
	if i.manifest.MediaType != manifestType || i.manifest.Config.MediaType != configType || i.manifest.Layers[0].MediaType != layerType {
		t.Errorf("the media types are %s, %s and %s", i.manifest.MediaType, i.manifest.Config.MediaType, i.manifest.Layers[0].MediaType)
	}
	if i.config.OS != d.Platform.OS || i.config.Architecture != d.Platform.Architecture {
		t.Errorf("the image is of %s/%s, and the index says %v", i.config.OS, i.config.Architecture, d.Platform)
	}
	c := i.config.Config
	if c.User != expectedUser || !slices.Equal(c.Entrypoint, []string{"/" + program}) || len(c.Cmd) != 0 {
		t.Errorf("the image runs as %q the entrypoint %q with %q", c.User, c.Entrypoint, c.Cmd)
	}
	// A stand-in listens on loopback by default, where no other container reaches it.
	var env, ports []string
	port := expectedPorts[program]
	if port != "" {
		ports = []string{port}
	}
	if slices.Contains(standIns, program) {
		env = []string{strings.ToUpper(program) + "_ADDRESS=:" + strings.TrimSuffix(port, "/tcp")}
	}
	if !slices.Equal(c.Env, env) {
		t.Errorf("the image has the variables %q, not %q", c.Env, env)
	}
	if exposed := slices.Collect(maps.Keys(c.ExposedPorts)); !slices.Equal(exposed, ports) {
		t.Errorf("the image exposes %q", exposed)
	}
	created := checkLabels(t, program, c.Labels)
	if !i.config.Created.Equal(created) || len(i.config.History) != 1 || !i.config.History[0].Created.Equal(created) {
		t.Errorf("the image was created at %v, with the history %v, and its labels say %v", i.config.Created, i.config.History, created)
	}
	if len(i.layer) != 3 || i.layer[0].Name != program || i.layer[1].Name != "licenses/LICENSE" || i.layer[2].Name != "licenses/third-party-notices.txt" {
		t.Fatalf("the layer has %d files, not the binary and two files of licences", len(i.layer))
	}
	checkEntry(t, i.layer[0], 0o555, created)
	checkEntry(t, i.layer[1], 0o444, created)
	checkEntry(t, i.layer[2], 0o444, created)
	checkStatic(t, i.layer[0].content, machines[i.config.Architecture])
	checkNotices(t, i.layer[0].content, i.layer[2].content)
}

// checkLabels checks that an image has exactly the labels of its program. It returns the
// time in the labels.
func checkLabels(t *testing.T, program string, got map[string]string) time.Time {
	t.Helper()
	want := fixedLabels(program)
	want[labels+"version"] = chartVersion(t)
	for _, key := range []string{"revision", "created"} {
		want[labels+key] = got[labels+key]
	}
	if !maps.Equal(got, want) || got[labels+"revision"] == "" {
		t.Errorf("the labels are %q, not %q", got, want)
	}
	created, err := time.Parse(time.RFC3339, got[labels+"created"])
	if err != nil {
		t.Error(err)
	}
	return created
}

// checkEntry checks that a file is owned by root and has no metadata of the build
// machine.
func checkEntry(t *testing.T, e entry, mode int64, created time.Time) {
	t.Helper()
	if e.Typeflag != tar.TypeReg || e.Mode != mode || e.Uid != 0 || e.Gid != 0 || e.Uname != "" || e.Gname != "" || !e.ModTime.Equal(created) {
		t.Errorf("%s is of type %c, mode %o, owner %d %q, group %d %q, time %v", e.Name, e.Typeflag, e.Mode, e.Uid, e.Uname, e.Gid, e.Gname, e.ModTime)
	}
}

// checkStatic checks that an executable needs no interpreter and no library.
func checkStatic(t *testing.T, binary []byte, machine elf.Machine) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if file.Machine != machine {
		t.Errorf("the binary is for %v, not for %v", file.Machine, machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a segment %v: it is not static", segment.Type)
		}
	}
}

// checkNotices checks that the licences name every module that is linked into a binary.
func checkNotices(t *testing.T, binary, notices []byte) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, module := range info.Deps {
		if module.Replace != nil || module.Version == "(devel)" {
			continue // Penstock's own
		}
		if named++; !bytes.Contains(notices, []byte("\n"+module.Path+"@"+module.Version+"\n")) {
			t.Errorf("the licences do not name %s", module.Path)
		}
	}
	if named == 0 || !bytes.Contains(notices, []byte("\nthe Go standard library\n")) {
		t.Errorf("the licences are of %d modules", named)
	}
}
