package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

const root = "../../.."

// metrics are those of both services, which start once for all tests.
var metrics = sync.OnceValues(func() (map[virtual.Kind][]metric, error) { return declared(context.Background()) })

// page returns the page, and the metrics on it.
func page(t *testing.T) (string, map[virtual.Kind][]metric) {
	t.Helper()
	found, err := metrics()
	var b strings.Builder
	if err == nil {
		err = write(&b, found)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), found
}

// The page in the repository matches what the services register.
func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := page(t); got != string(want) {
		t.Error("docs/metrics.md is not what the services register: run make metrics-page")
	}
}

// The page has the name of every metric in the code, so a metric that is registered later than
// the services are ready is missed.
func TestPageHasEveryMetric(t *testing.T) {
	t.Parallel()
	page, _ := page(t)
	name := regexp.MustCompile(`"(penstock_(?:publisher|projector)_[a-z_]+)"`)
	var missing []string
	for _, service := range services {
		err := filepath.WalkDir(filepath.Join(root, string(service)), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range name.FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(page, "`"+match[1]+"`") {
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
}

// Every metric is named as Prometheus recommends.
func TestMetricsAreLinted(t *testing.T) {
	t.Parallel()
	_, found := page(t)
	for _, service := range services {
		families := make([]*dto.MetricFamily, len(found[service]))
		for i, m := range found[service] {
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
