package config

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// Kinds of election, by their configured names.
const (
	// ElectionKubernetes elects by a Lease of the Kubernetes API.
	ElectionKubernetes = "kubernetes"
	// ElectionMongoDB elects by a document in the database of the state.
	ElectionMongoDB = "mongodb"
)

// Config has all settings of an operator. The tags are kong's. The zero value is invalid;
// pkg/cli fills in the defaults.
type Config struct {
	MongoDB    mongox.Config  `embed:"" group:"MongoDB"`
	ServiceBus sbus.Config    `embed:"" group:"Azure Service Bus"`
	Stream     Stream         `embed:"" group:"Stream"`
	Fields     event.Fields   `embed:"" group:"Event documents"`
	Publish    Publish        `embed:"" group:"Publishing"`
	Refusals   Refusals       `embed:"" group:"Refusals"`
	Election   Election       `embed:"" group:"Election"`
	Process    Process        `embed:"" group:"Process"`
	Tracing    tracing.Config `embed:"" group:"Tracing"`
}

// EventFields says how to read event documents: Fields, and the representation of older UUIDs
// that the connection string of the event store has.
func (c *Config) EventFields() event.Fields {
	fields := c.Fields
	fields.UUIDs = event.UUIDRepresentation(c.MongoDB.UUIDRepresentation())
	return fields
}

// Stream says what to read, and where to start.
type Stream struct {
	Name          string        `name:"stream" env:"PENSTOCK_STREAM" default:"events" placeholder:"NAME" help:"Name of the checkpoint. Publishers of one pipeline share it. A new name has no checkpoint, so the publisher starts at --start. The publisher refuses to start if the checkpoint records another event store, topic or session mode."`
	Start         string        `name:"start" env:"PENSTOCK_START" default:"beginning" placeholder:"WHERE" help:"Where to start when there is no checkpoint yet: beginning (everything in the event store, then new events), now, or an RFC 3339 time such as 2026-03-01T00:00:00Z. If the oplog no longer reaches back to that time, or is lost later, the event store is scanned, and events whose timestamp is more than a minute before the start are left out."`
	PrefetchBytes int64         `name:"prefetch-bytes" env:"PENSTOCK_PREFETCH_BYTES" default:"16777216" help:"Bytes of events that are read ahead of publishing."`
	Silence       time.Duration `name:"stream-silence" env:"PENSTOCK_STREAM_SILENCE" default:"1m" help:"How long a stream that has caught up may make no progress, or MongoDB may leave pings unanswered while it catches up, before the stream is reopened. After twice that, /livez fails. It must exceed 10s, because an idle replica set writes to its oplog every 10s."`
}

// Publish says how to send events.
type Publish struct {
	Encoding           string        `name:"encoding" env:"PENSTOCK_ENCODING" enum:"json,bson" default:"json" help:"Form of the message bodies: json (relaxed MongoDB Extended JSON) or bson."`
	SessionMode        string        `name:"session-mode" env:"PENSTOCK_SESSION_MODE" enum:"aggregate,bucket" default:"aggregate" help:"What shares a session: each aggregate has its own (aggregate), or the aggregates are spread over a fixed number of them (bucket), which is much faster to drain if aggregates are many and short-lived. A change breaks the order of the events that are on the topic at that moment."`
	SessionBuckets     int           `name:"session-buckets" env:"PENSTOCK_SESSION_BUCKETS" default:"64" help:"Number of sessions in session mode bucket. A change breaks the order of the events that are on the topic at that moment."`
	CloudEvents        string        `name:"cloudevents-source" env:"PENSTOCK_CLOUDEVENTS_SOURCE" url:"" placeholder:"URI" help:"Make each message a CloudEvent of this source, such as /shop/events, by application properties. By default messages have no attributes of CloudEvents."`
	ClaimCheck         bool          `name:"claim-check" env:"PENSTOCK_CLAIM_CHECK" default:"true" negatable:"" help:"Send an event that is too large for the topic without its payload; the projector reads it from the event store. Without it such an event goes to the quarantine."`
	Batching           string        `name:"batching" env:"PENSTOCK_BATCHING" enum:"auto,off,session,mixed" default:"auto" help:"Events in one broker message: one (off), those of one session (session), of any sessions (mixed), or as many as the topic takes (auto): the publisher begins with mixed, and sends smaller batches after a refusal."`
	Connections        int           `name:"connections" env:"PENSTOCK_CONNECTIONS" default:"4" help:"Connections to Service Bus."`
	MaxInflightEvents  int           `name:"max-inflight-events" env:"PENSTOCK_MAX_INFLIGHT_EVENTS" default:"8192" help:"Events that may be in memory and await the broker's answer before reading stops. Events behind a slow or failing session key count, too."`
	MaxInflightBytes   int64         `name:"max-inflight-bytes" env:"PENSTOCK_MAX_INFLIGHT_BYTES" default:"67108864" help:"Bytes of events that may await the broker's answer before reading stops. In addition, the messages that are being sent take up to three times as much."`
	CheckpointInterval time.Duration `name:"checkpoint-interval" env:"PENSTOCK_CHECKPOINT_INTERVAL" default:"1s" help:"Time between two saves of the checkpoint. A crash repeats at most the events of this time and those in flight."`
}

// Refusals says what to do with events that the topic does not accept, and how long a
// server may refuse the publisher itself.
type Refusals struct {
	MaxAttempts int           `name:"max-send-attempts" env:"PENSTOCK_MAX_SEND_ATTEMPTS" default:"5" help:"Times that the topic may refuse one event, while it accepts others, before the event goes to the quarantine with reason refused. Only explicit refusals count: an event that fails in another way waits, and the later events of its session key with it."`
	FatalAfter  time.Duration `name:"fatal-after" env:"PENSTOCK_FATAL_AFTER" default:"10m" help:"How long Service Bus or MongoDB may refuse a publisher that has worked before (no such topic, no rights, saves of the checkpoint refused) before the process ends. A standby that has compared its pipeline with the checkpoint counts as one that has worked. Until then it retries and is not ready. A publisher that is refused at its start ends immediately."`
}

// Election says how the leader is chosen.
type Election struct {
	Kind          string        `name:"election" env:"PENSTOCK_ELECTION" enum:"kubernetes,mongodb" default:"kubernetes" help:"How the one publisher is chosen: by a Kubernetes Lease (kubernetes), or by a document in the database of the state (mongodb)."`
	LeaseName     string        `name:"lease-name" env:"PENSTOCK_LEASE_NAME" placeholder:"NAME" help:"Name of the lease, which only the publishers of one pipeline share. The default is penstock-publisher-STREAM-HASH; HASH depends on the event store's collection and the topic."`
	Namespace     string        `name:"lease-namespace" env:"PENSTOCK_LEASE_NAMESPACE" placeholder:"NAME" help:"Kubernetes namespace of the lease; the default is the pod's namespace."`
	LeaseDuration time.Duration `name:"lease-duration" env:"PENSTOCK_LEASE_DURATION" default:"15s" help:"How long after its last renewal another publisher takes over from a dead one. Whole seconds."`
	RenewDeadline time.Duration `name:"lease-renew-deadline" env:"PENSTOCK_LEASE_RENEW_DEADLINE" default:"10s" help:"How long a leader tries to renew the lease before it stops publishing. At least 1s less than the duration."`
	RetryPeriod   time.Duration `name:"lease-retry-period" env:"PENSTOCK_LEASE_RETRY_PERIOD" default:"2s" help:"Time between two renewals of the lease. A standby reads it four times as often."`
	Identity      string        `name:"identity" env:"PENSTOCK_IDENTITY" placeholder:"NAME" help:"Name of this process in the lease, which no other process may have while this one runs. A publisher that starts under the name that an earlier one left in the lease continues at once; otherwise it waits for the end of that lease. In Kubernetes it is POD-NAME_POD-UID. The default is the host's name with a random suffix."`
	// Kubeconfig has client-go's own variable.
	Kubeconfig string `name:"kubeconfig" env:"KUBECONFIG" placeholder:"FILE" help:"Kubernetes configuration to use outside a pod."`
	// Dial opens the connections to the API server; nil means TCP. A process in a test has
	// one of its own, so that the test can break and delay its connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `kong:"-"`
}

// Process has the settings of the process: log, admin server, timeouts.
type Process struct {
	Log          obs.Config    `embed:""`
	AdminAddress string        `name:"admin-address" env:"PENSTOCK_ADMIN_ADDRESS" default:":8080" placeholder:"HOST:PORT" help:"Where /livez, /readyz, /metrics and the status page (/status) are served."`
	AdminHosts   string        `name:"admin-hosts" env:"PENSTOCK_ADMIN_HOSTS" placeholder:"NAME,…" help:"Host names by which a proxy reaches the admin address. Requests may name the address itself, a name without dots, or a name of the cluster (.svc, .local, .internal). All others are refused, because a web page could send them from the browser of a person in the network."`
	PProf        bool          `name:"pprof" env:"PENSTOCK_PPROF" help:"Serve /debug/pprof on the admin address too."`
	DrainTimeout time.Duration `name:"drain-timeout" env:"PENSTOCK_DRAIN_TIMEOUT" default:"20s" help:"How long a stop waits for the broker to accept the events in flight. The pod's grace period must exceed the sum of this and the lease's renew deadline."`
}

// Encoder makes the encoder of the terms, and of the commands that publish.
func (p Publish) Encoder() *event.Encoder {
	sessions := event.NewSessionKeys(event.SessionMode(p.SessionMode), p.SessionBuckets)
	return event.NewEncoder(event.Encoding(p.Encoding), sessions).WithSource(p.CloudEvents)
}

// LeaseName returns the name of the lease. The default differs between two pipelines even
// if both have the default stream name. Otherwise a standby would wait forever behind
// another pipeline's leader.
func (c *Config) LeaseName() string {
	events := c.MongoDB.Events()
	hash := fnv.New32a()
	for _, part := range []string{events.Database, events.Collection, strings.ToLower(c.ServiceBus.Host()), strings.ToLower(c.ServiceBus.Topic)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return cmp.Or(c.Election.LeaseName, fmt.Sprintf("penstock-publisher-%s-%08x", c.Stream.Name, hash.Sum32()))
}

// Host returns the process's name in the lease.
func (e Election) Host() string {
	if host, _, _ := strings.Cut(e.Identity, "_"); host != "" {
		return host
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "publisher"
}
