package main

import "time"

// program is a program that becomes an image.
type program struct {
	// name is the name of the program and of its image.
	name string
	// title and description are for the image's labels.
	title, description string
	// folder is the folder of its module, and main the path of its main package in there.
	folder, main string
	// stamped is the package whose variable release takes the version, and revision the
	// commit if it has such a variable.
	stamped string
	// port is the port on which it listens; empty if it does not.
	port string
	// env are the environment variables of the image.
	env []string
}

// cli is the package that prints the version of the services.
const cli = "github.com/penstock-cdc/penstock/pkg/cli"

var programs = []program{
	{
		name: "publisher", title: "penstock-publisher",
		description: "Publishes the events of a MongoDB event store to a topic of Azure Service Bus.",
		folder:      "publisher", main: ".", stamped: cli, port: "8080/tcp",
	},
	{
		name: "projector", title: "penstock-projector",
		description: "Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus.",
		folder:      "projector", main: ".", stamped: cli, port: "8080/tcp",
	},
	{
		name: "sbemu", title: "sbemu",
		description: "Stands in for Azure Service Bus, in memory, for development and tests.",
		folder:      "integration/sbemu", main: "./cmd/sbemu", stamped: "main", port: "5672/tcp",
		env: []string{"SBEMU_ADDRESS=:5672"},
	},
	{
		name: "mongoemu", title: "mongoemu",
		description: "Stands in for MongoDB, in memory, for development and tests.",
		folder:      "integration/mongoemu", main: "./cmd/mongoemu", stamped: "main", port: "27017/tcp",
		env: []string{"MONGOEMU_ADDRESS=:27017"},
	},
	{
		name: "shop", title: "shop",
		description: "Writes the events of a small shop into an event store, to try Penstock.",
		folder:      "integration", main: "./cmd/shop", stamped: cli,
	},
}

// repository returns the repository of the image. The chart pulls those of the services.
func (p program) repository() string { return "ghcr.io/penstock-cdc/" + p.name }

// release has the values that all images of a build share.
type release struct {
	version, revision string
	// created is the time in all timestamps.
	created time.Time
}

// labels returns the annotations of the OCI image specification, for the configuration of
// each image and for the index.
func (r release) labels(p program) map[string]string {
	labels := map[string]string{
		"title":       p.title,
		"description": p.description,
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
