package images_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// repository is the root of this checkout.
const repository = "../.."

// services are the services, and standIns the stand-ins. Each has an image, and so has the
// shop of integration/compose.
var (
	services = []string{"publisher", "projector"}
	standIns = []string{"sbemu", "mongoemu"}
	programs = slices.Concat(services, standIns, []string{"shop"})
)

// expectedUser is the user of all images.
const expectedUser = "65532:65532"

// expectedPorts are the ports on which the programs listen in their images.
var expectedPorts = map[string]string{
	"publisher": "8080/tcp", "projector": "8080/tcp", "sbemu": "5672/tcp", "mongoemu": "27017/tcp",
}

// labels are the prefix of the image specification's own keys.
const labels = "org.opencontainers.image."

// fixedLabels are the labels of a program that are the same in every build.
func fixedLabels(program string) map[string]string {
	descriptions := map[string]string{
		"publisher": "Publishes the events of a MongoDB event store to a topic of Azure Service Bus.",
		"projector": "Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus.",
		"sbemu":     "Stands in for Azure Service Bus, in memory, for development and tests.",
		"mongoemu":  "Stands in for MongoDB, in memory, for development and tests.",
		"shop":      "Writes the events of a small shop into an event store, to try Penstock.",
	}
	title := program
	if slices.Contains(services, program) {
		title = "penstock-" + program
	}
	return map[string]string{
		labels + "title":       title,
		labels + "description": descriptions[program],
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

// chartVersion returns the version of the images that the chart uses, and imageName returns
// the name of an image: of a service as the chart has it, of another program beside them.
func chartVersion(t *testing.T) string {
	t.Helper()
	return capture(t, "charts/penstock/Chart.yaml", `^appVersion: (.*)$`)
}

func imageName(t *testing.T, program string) string {
	t.Helper()
	const values = "charts/penstock/values.yaml"
	owner := capture(t, values, `^  registry: (.*)$`) + "/"
	if !slices.Contains(services, program) {
		return owner + capture(t, values, `^    repository: (.*)/publisher$`) + "/" + program
	}
	return owner + capture(t, values, `^    repository: (.*/`+program+`)$`)
}
