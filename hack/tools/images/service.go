package main

import "time"

// service is a program that becomes an image.
type service struct {
	// name is the name of the program, of its module's folder and of its image.
	name string
	// description is for the image's labels.
	description string
}

var services = []service{
	{"publisher", "Publishes the events of a MongoDB event store to a topic of Azure Service Bus."},
	{"projector", "Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus."},
}

// repository returns the repository from which the chart pulls the image.
func (s service) repository() string { return "ghcr.io/penstock-cdc/" + s.name }

// release has the values that all images of a build share.
type release struct {
	version, revision string
	// created is the time in all timestamps.
	created time.Time
}

// labels returns the annotations of the OCI image specification, for the configuration of
// each image and for the index.
func (r release) labels(s service) map[string]string {
	labels := map[string]string{
		"title":       "penstock-" + s.name,
		"description": s.description,
		"source":      "https://github.com/penstock-cdc/penstock",
		"licenses":    "Apache-2.0",
		"version":     r.version,
		"revision":    r.revision,
		"created":     r.created.Format(time.RFC3339),
	}
	prefixed := make(map[string]string, len(labels))
	for key, value := range labels {
		prefixed["org.opencontainers.image."+key] = value
	}
	return prefixed
}
