package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

// contender is a program that carries events out of MongoDB.
type contender struct {
	name, version, destination string
	// snapshotOnly says that the program ends when it has read the stored events.
	snapshotOnly bool
	// sink opens the destination; nil means the topic.
	sink func(c *course) (sink, error)
	// start starts instance i. An instance that starts again goes on where it was.
	start func(c *course, i int) (*proc.Process, error)
}

// contenders are the programs that take part: Penstock, the loop, and the peers whose
// executables are named.
func (o *Options) contenders(ctx context.Context) []contender {
	all := []contender{
		{name: "Penstock", version: cli.Version(), destination: "topic", start: startPenstock},
		{name: "one by one, in Go", destination: "topic", start: startLoop},
	}
	if o.Conduit != "" {
		all = append(all, contender{
			name: "Conduit", version: version(ctx, o.Conduit, "version"), destination: "file",
			sink: func(c *course) (sink, error) { return newFileSink(c.eventFile()) }, start: startConduit,
		})
	}
	if o.Monstache != "" {
		all = append(all, contender{
			name: "Monstache", version: version(ctx, o.Monstache, "-v"), destination: "fake Elasticsearch",
			sink: func(*course) (sink, error) { return newElasticSink() }, start: startMonstache,
		})
	}
	if o.Connect != "" {
		all = append(all, contender{
			name: "Redpanda Connect", version: version(ctx, o.Connect, "--version"), destination: "topic", snapshotOnly: true,
			start: startConnect,
		})
	}
	return all
}

// versionNumber is a version among other words.
var versionNumber = regexp.MustCompile(`\bv?\d\S*`)

// version asks a program for its version: the first one in what it prints, empty if there is
// none.
func version(ctx context.Context, binary, argument string) string {
	out, err := exec.CommandContext(ctx, binary, argument).Output()
	if err != nil {
		return ""
	}
	return string(versionNumber.Find(out))
}

func startPenstock(c *course, i int) (*proc.Process, error) {
	process, err := c.pipeline.StartPublisher(fmt.Sprintf("publisher-%d", i))
	if err != nil {
		return nil, err
	}
	return process.OS, nil
}

func startLoop(c *course, i int) (*proc.Process, error) {
	arguments, err := json.Marshal(loopSpec{MongoURI: c.MongoURI(), Databases: c.Databases(), Bus: c.backend.Bus(), From: c.before})
	if err != nil {
		return nil, fmt.Errorf("specify the loop: %w", err)
	}
	return c.run(i, c.Self, "loop", string(arguments))
}

// startConduit starts Conduit with the MongoDB connector as a plugin:
// https://conduit.io/docs/using/pipelines/configuration-file
func startConduit(c *course, i int) (*proc.Process, error) {
	pipeline, err := c.write(i, "pipeline.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: events
    status: running
    connectors:
      - id: source
        type: source
        plugin: standalone:mongo
        settings: {uri: %q, db: %q, collection: %q}
      - id: destination
        type: destination
        plugin: builtin:file
        settings: {path: %q}
`, c.MongoURI(), c.Databases().Events, harness.EventsCollection, c.eventFile()))
	if err != nil {
		return nil, err
	}
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	grpc, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	return c.run(i, c.Conduit, "run", "--db.type", "badger", "--db.badger.path", filepath.Join(filepath.Dir(pipeline), "conduit.db"),
		"--pipelines.path", pipeline, "--connectors.path", filepath.Join(filepath.Dir(c.Conduit), "connectors"),
		"--api.http.address", address, "--api.grpc.address", grpc)
}

// startMonstache starts Monstache with its progress in MongoDB:
// https://rwynn.github.io/monstache-site/config/
func startMonstache(c *course, i int) (*proc.Process, error) {
	events := c.Databases().Events + "." + harness.EventsCollection
	config, err := c.write(i, "monstache.toml", fmt.Sprintf(`mongo-url = %q
elasticsearch-urls = [%q]
direct-read-namespaces = [%q]
change-stream-namespaces = [%q]
config-database-name = %q
resume = true
`, c.MongoURI(), c.sink.(*elasticSink).url, events, events, c.Databases().State)) //nolint:forcetypeassert // its own sink
	if err != nil {
		return nil, err
	}
	return c.run(i, c.Monstache, "-f", config)
}

// startConnect starts Redpanda Connect with its free input, which reads a collection once:
// https://docs.redpanda.com/connect/components/inputs/mongodb/ and
// https://docs.redpanda.com/connect/components/outputs/amqp_1/
func startConnect(c *course, i int) (*proc.Process, error) {
	broker := url.URL{Scheme: "amqp", Host: c.backend.Broker.Addr().String()}
	config, err := c.write(i, "connect.yaml", fmt.Sprintf(`input:
  mongodb:
    url: %q
    database: %q
    collection: %q
    json_marshal_mode: relaxed
    query: root = {}
output:
  amqp_1:
    urls: [%q]
    target_address: %q
    sasl: {mechanism: plain, user: %q, password: %q}
    message_properties_message_id: ${! this.aggregateId + "/" + this.eventId.string() }
    message_properties_group_id: ${! this.aggregateId }
`, c.MongoURI(), c.Databases().Events, harness.EventsCollection, broker.String(), c.backend.Bus().Topic, sbemu.DefaultPolicy, sbemu.DefaultKey))
	if err != nil {
		return nil, err
	}
	return c.run(i, c.Connect, "run", config)
}

// write writes a file into the folder of instance i.
func (c *course) write(i int, name, text string) (string, error) {
	path := filepath.Join(c.dir, fmt.Sprint(i), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("make a folder for %s: %w", c.contender.name, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("configure %s: %w", c.contender.name, err)
	}
	return path, nil
}

// run starts a program as instance i.
func (c *course) run(i int, binary string, args ...string) (*proc.Process, error) {
	return proc.Start(proc.Spec{Name: fmt.Sprintf("instance-%d", i), Binary: binary, Args: args, LogDir: c.dir})
}
