package images_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// repository is the root of this checkout.
const repository = "../.."

// services are the services that have an image.
var services = []string{"publisher", "projector"}

// The configuration that all images have.
const (
	expectedUser = "65532:65532"
	expectedPort = "8080/tcp"
)

// labels are the prefix of the image specification's own keys.
const labels = "org.opencontainers.image."

// fixedLabels are the labels of a service that are the same in every build.
func fixedLabels(service string) map[string]string {
	descriptions := map[string]string{
		"publisher": "Publishes the events of a MongoDB event store to a topic of Azure Service Bus.",
		"projector": "Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus.",
	}
	return map[string]string{
		labels + "title":       "penstock-" + service,
		labels + "description": descriptions[service],
		labels + "source":      "https://github.com/penstock-cdc/penstock",
		labels + "licenses":    "Apache-2.0",
	}
}

// capture reads a file of the repository and returns the match of the expression's group.
// The expression must match exactly once.
func capture(t *testing.T, path, expression string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?m)"+expression).FindAllSubmatch(content, -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d matches of %s, not one", path, len(found), expression)
	}
	return string(found[0][1])
}

// chartVersion returns the version of the images that the chart uses, and chartName
// returns their name.
func chartVersion(t *testing.T) string {
	t.Helper()
	return capture(t, "charts/penstock/Chart.yaml", `^appVersion: (.*)$`)
}

func chartName(t *testing.T, service string) string {
	t.Helper()
	const values = "charts/penstock/values.yaml"
	return capture(t, values, `^  registry: (.*)$`) + "/" + capture(t, values, `^    repository: (.*/`+service+`)$`)
}
