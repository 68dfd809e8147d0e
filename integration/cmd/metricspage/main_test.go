package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// The page in the repository matches the code.
func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := write(&got, root); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Error("docs/metrics.md is not what the code declares: run make metrics-page")
	}
}

// The page has the name of every metric in the code, however the code declares it.
func TestPageHasEveryMetric(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	if err := write(&page, root); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`"(penstock_(?:publisher|projector)_[a-z_]+)"`)
	var missing []string
	for _, service := range []string{"publisher", "projector"} {
		err := filepath.WalkDir(filepath.Join(root, service), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range name.FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(page.String(), "`"+match[1]+"`") {
					missing = append(missing, match[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); len(missing) > 0 {
		t.Errorf("not on the page: %q", missing)
	}
	for _, row := range []string{
		"| `penstock_projector_sessions_active` | gauge |  | Sessions that this process holds. |",
		"| `penstock_projector_settlements_total` | counter | `operation`, `result` | ",
		"| `penstock_projector_event_age_seconds` | histogram |  | ",
		"| `penstock_publisher_build_info` | gauge | `version` | Always 1; ",
		"| `penstock_projector_dead_letters` | gauge | `reason` | ",
	} {
		if !strings.Contains(page.String(), row) {
			t.Errorf("the page has no row that begins with %s", row)
		}
	}
}

func TestFolderWithoutTheServicesIsRefused(t *testing.T) {
	t.Parallel()
	if err := write(&strings.Builder{}, t.TempDir()); err == nil {
		t.Error("a folder without the services gave a page")
	}
}
