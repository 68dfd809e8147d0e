package config

import (
	"cmp"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// Config has all settings of an operator. The tags are for kong. The zero value is
// invalid; pkg/cli sets the defaults.
type Config struct {
	MongoDB     mongox.ReadModelsConfig `embed:"" group:"MongoDB"`
	ServiceBus  ServiceBus              `embed:"" group:"Azure Service Bus"`
	Projections Projections             `embed:"" group:"Projections"`
	Fields      event.Fields            `embed:"" group:"Event documents"`
	Sessions    Sessions                `embed:"" group:"Sessions"`
	Backlog     Backlog                 `embed:"" group:"Backlog"`
	History     History                 `embed:"" group:"History"`
	Process     Process                 `embed:"" group:"Process"`
	Tracing     tracing.Config          `embed:"" group:"Tracing"`
}

// EventFields says how to read event documents: Fields, and the representation of older UUIDs
// that the connection string of the event store has.
func (c *Config) EventFields() event.Fields {
	fields := c.Fields
	fields.UUIDs = event.UUIDRepresentation(c.MongoDB.UUIDRepresentation())
	return fields
}

// ServiceBus has the settings of the subscription from which events are received.
type ServiceBus struct {
	sbus.Config `embed:""`

	Subscription string `name:"servicebus-subscription" env:"AZURE_SERVICEBUS_SUBSCRIPTION_NAME" placeholder:"NAME" help:"Subscription of the topic. It must require sessions, which is set when it is created."`
	Connections  int    `name:"connections" env:"PENSTOCK_CONNECTIONS" default:"0" help:"Connections to Service Bus that the sessions spread over; 0 means 4 with the receiver amqp and 16 with the receiver sdk. With sdk, a connection accepts one session after the other, each in about ten round trips."`
	Receiver     string `name:"receiver" env:"PENSTOCK_RECEIVER" enum:"amqp,sdk" default:"amqp" help:"What accepts the sessions and receives their messages: Penstock's own receiver over AMQP (amqp), which accepts a session in one round trip, or the receiver of the Azure SDK (sdk), which needs about 15."`
}

// ReceiverSDK is the value of [ServiceBus.Receiver] for the receiver of the Azure SDK.
const ReceiverSDK = "sdk"

// defaults are the defaults that depend on the receiver. With the receiver of the SDK, an
// accept takes many round trips and much memory. So it needs more connections and keeps
// sessions longer.
type defaults struct {
	connections, slots int
	idle               time.Duration
}

var (
	defaultsAMQP = defaults{connections: 4, slots: 128, idle: 10 * time.Millisecond}
	defaultsSDK  = defaults{connections: 16, slots: 64, idle: 30 * time.Millisecond}
)

func (c *Config) defaults() defaults {
	if c.ServiceBus.Receiver == ReceiverSDK {
		return defaultsSDK
	}
	return defaultsAMQP
}

// Connections returns the number of connections over which the sessions are spread.
func (c *Config) Connections() int { return cmp.Or(c.ServiceBus.Connections, c.defaults().connections) }

// Slots returns the number of sessions that are drained at the same time.
func (c *Config) Slots() int { return cmp.Or(c.Sessions.Slots, c.defaults().slots) }

// SessionIdle returns how long an empty session is kept while another one waits: about as
// long as an accept takes.
func (c *Config) SessionIdle() time.Duration { return cmp.Or(c.Sessions.Idle, c.defaults().idle) }

// Projections has the settings of the read models.
type Projections struct {
	Path          string        `name:"projections" env:"PENSTOCK_PROJECTIONS" placeholder:"PATH" help:"The projections: a YAML file, or a folder whose *.yaml and *.yml files are all read."`
	BatchSize     int           `name:"batch-size" env:"PENSTOCK_BATCH_SIZE" default:"256" help:"Events of a session that are projected together. A session holds up to a few times as many in memory."`
	LoadBytes     int           `name:"load-bytes" env:"PENSTOCK_LOAD_BYTES" default:"67108864" help:"About how many bytes of read models this process holds in memory while it applies events to them. Applying can take up to twice as much in addition. A read model that is larger than this is loaded alone."`
	KeepBytes     int           `name:"keep-bytes" env:"PENSTOCK_KEEP_BYTES" default:"33554432" help:"Bytes of read models that this process keeps after it has written them, those written last, so that the next events of their aggregates need not load them again. 0 keeps none."`
	FailureLimit  float64       `name:"failure-limit" env:"PENSTOCK_FAILURE_LIMIT" default:"0.2" help:"Share of the aggregates of a range that a build may fail to fold, above 0 and at most 1. If it fails for more, the definition is wrong, and the build fails as a whole. 1 never fails a build for that."`
	FlushInterval time.Duration `name:"flush-interval" env:"PENSTOCK_FLUSH_INTERVAL" default:"2ms" help:"How long a write waits for writes of other sessions, to share a round trip with them. A write does not wait if there are no others."`

	// InCode is set if projections in Go are registered. Path may be empty then.
	InCode bool `kong:"-"`
}

// Sessions has the settings of draining sessions.
type Sessions struct {
	Slots       int           `name:"sessions" env:"PENSTOCK_SESSIONS" default:"0" help:"Sessions that this process drains at the same time; 0 means 128 with the receiver amqp and 64 with the receiver sdk."`
	Idle        time.Duration `name:"session-idle" env:"PENSTOCK_SESSION_IDLE" default:"0" help:"How long a session may have no message before its slot takes another session that waits; at least three round trips to the broker. 0 means 10ms with the receiver amqp and 30ms with the receiver sdk. If no session waits, the slot keeps its session for --session-hold."`
	Hold        time.Duration `name:"session-hold" env:"PENSTOCK_SESSION_HOLD" default:"1m" help:"How long a session without messages is kept at most. Accepting it again takes a round trip, or about 15 with the receiver sdk."`
	Tenure      time.Duration `name:"session-tenure" env:"PENSTOCK_SESSION_TENURE" default:"2m" help:"How long a busy session is kept at most, so that others have a turn and new pods get their share."`
	BufferBytes int           `name:"buffer-bytes" env:"PENSTOCK_BUFFER_BYTES" default:"67108864" help:"Bytes of messages that all sessions together prefetch; each slot has an equal share. Received messages count with their size; requested messages count with a forecast from the session's last messages. Messages that are being projected or retried take at most as much again. If messages suddenly become much larger, those already requested can exceed the limit once."`
}

// Backlog has the settings of counting the sessions with messages, for an autoscaler.
type Backlog struct {
	Interval time.Duration `name:"backlog-interval" env:"PENSTOCK_BACKLOG_INTERVAL" default:"30s" help:"How often this process counts the dead letters of the subscription and its sessions that have messages, for the metrics penstock_projector_backlog_sessions and penstock_projector_dead_letters; 0 means never."`
	Limit    int           `name:"backlog-limit" env:"PENSTOCK_BACKLOG_LIMIT" default:"5000" help:"Largest number of sessions that is counted. A hundred sessions take one request of about ten round trips."`

	BehindAfter time.Duration `name:"behind-after" env:"PENSTOCK_BEHIND_AFTER" default:"1m" help:"How long events may wait in the subscription before the health condition behind names it."`
}

// Process has the settings of logs, servers and the process itself.
type Process struct {
	Log          obs.Config    `embed:""`
	AdminAddress string        `name:"admin-address" env:"PENSTOCK_ADMIN_ADDRESS" default:":8080" placeholder:"HOST:PORT" help:"Where /livez, /readyz, /metrics and the status page (/status) are served."`
	AdminHosts   string        `name:"admin-hosts" env:"PENSTOCK_ADMIN_HOSTS" placeholder:"NAME,…" help:"Host names by which a proxy reaches the admin address. Requests may name the address itself, a name without dots, or a name of the cluster (.svc, .local, .internal). All others are refused, because a web page could send them from the browser of a person in the network."`
	QueryAddress string        `name:"query-address" env:"PENSTOCK_QUERY_ADDRESS" placeholder:"HOST:PORT" help:"Where GET /applied answers whether read models have an event, for programs that read what they have written. It is off by default. It has no authentication: let only the programs that need it reach it."`
	Identity     string        `name:"identity" env:"PENSTOCK_IDENTITY" placeholder:"NAME" help:"Name of the place in which this process runs. No other running process may have the same name. A projector that starts under the name of an earlier one knows that the earlier one has ended, and ends its registration: promotions of rebuilds continue at once, instead of after half a minute. In Kubernetes it is POD-NAME_POD-UID. If empty, promotions wait."`
	PProf        bool          `name:"pprof" env:"PENSTOCK_PPROF" help:"Serve /debug/pprof on the admin address too."`
	DrainTimeout time.Duration `name:"drain-timeout" env:"PENSTOCK_DRAIN_TIMEOUT" default:"20s" help:"How long a stop may take to finish the received events and to release the sessions. The pod's grace period must be at least 5s longer."`
	FatalAfter   time.Duration `name:"fatal-after" env:"PENSTOCK_FATAL_AFTER" default:"10m" help:"How long MongoDB may refuse the credentials or rights of a projector that it has served before, until the process ends. Until then it retries and is not ready. A projector that is refused at its start ends immediately."`
}
