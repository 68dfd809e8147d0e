package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
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

// Every metric is named as Prometheus recommends.
func TestMetricsAreLinted(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"publisher", "projector"} {
		found, err := declared(root, service)
		if err != nil {
			t.Fatal(err)
		}
		families := make([]*dto.MetricFamily, len(found))
		for i, m := range found {
			kind := dto.MetricType(dto.MetricType_value[strings.ToUpper(m.kind)])
			one := &dto.Metric{}
			for _, label := range m.labels {
				one.Label = append(one.Label, &dto.LabelPair{Name: &label})
			}
			families[i] = &dto.MetricFamily{Name: &m.name, Help: &m.help, Type: &kind, Metric: []*dto.Metric{one}}
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestFolderWithoutTheServicesIsRefused(t *testing.T) {
	t.Parallel()
	if err := write(&strings.Builder{}, t.TempDir()); err == nil {
		t.Error("a folder without the services gave a page")
	}
}
