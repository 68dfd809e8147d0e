package command

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

const maxWriteBatch = 100_000

// hello executes hello and isMaster. With topologyVersion and maxAwaitTimeMS it waits for
// a change of the topology, and the client may want further replies.
func hello(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	var await time.Duration
	var version int64
	helloOK, known := false, false
	asked := ""
	for it := bsonraw.NewIter(r.Body); it.Next(); {
		switch v := it.Value(); string(it.Key()) {
		case "client":
			if v.Type == bsoncore.TypeEmbeddedDocument {
				if name, ok := bsonraw.LookupPath(v.Data, "application", "name"); ok && name.Type == bsoncore.TypeString {
					r.conn.AppName = string(bsonraw.Text(name))
				}
			}
		case "saslSupportedMechs":
			if v.Type == bsoncore.TypeString {
				asked = string(bsonraw.Text(v))
			}
		case "helloOk":
			helloOK = bsonraw.Truthy(v)
		case "maxAwaitTimeMS":
			n, ok := bsonraw.Int64(v)
			if !ok || n < 0 {
				return mongoerr.New(mongoerr.BadValue, "maxAwaitTimeMS must be a non-negative integer")
			}
			await = time.Duration(n) * time.Millisecond
		case "topologyVersion":
			if v.Type != bsoncore.TypeEmbeddedDocument {
				return wrongType(r.Name, "topologyVersion", v, "object")
			}
			counter, _ := bsonraw.Lookup(v.Data, "counter")
			process, _ := bsonraw.Lookup(v.Data, "processId")
			if n, ok := counter.Int64OK(); ok && string(process.Data) == string(e.processID[:]) {
				version, known = n, true
			}
		}
	}
	if await > 0 && known {
		r.exhaust = true
		e.awaitTopology(ctx, version, await, r.repeat)
	}
	e.describe(r, b, helloOK)
	if asked != "" {
		e.mechanisms(b, asked)
	}
	return nil
}

// topologyCounter is the counter of the topology version. The topology never changes.
const topologyCounter = 0

// awaitTopology waits for the whole time that the client allows, because the topology
// never changes. It returns immediately if the client has another topology version.
func (e *Engine) awaitTopology(ctx context.Context, version int64, await time.Duration, repeat int) {
	if repeat == 0 && version != topologyCounter {
		return
	}
	_ = e.delay(ctx, await)
}

func (e *Engine) describe(r *Request, b *bsonraw.Builder, helloOK bool) {
	if helloOK {
		b.Bool("helloOk", true)
	}
	e.topologyVersion(b)
	if e.Sharded {
		e.describeRouter(r, b)
		e.limits(r, b)
		return
	}
	b.Strings("hosts", e.Host).String("setName", e.SetName).Int32("setVersion", 1)
	if r.Name == "hello" {
		b.Bool("isWritablePrimary", true)
	} else {
		b.Bool("ismaster", true)
	}
	b.Bool("secondary", false).String("primary", e.Host).String("me", e.Host).ObjectID("electionId", electionID)
	newest := e.Store.OperationTime()
	date := time.Unix(int64(newest.T), 0)
	b.Start("lastWrite")
	b.Start("opTime").Timestamp("ts", newest).Int64("t", term).End().Time("lastWriteDate", date)
	b.Start("majorityOpTime").Timestamp("ts", newest).Int64("t", term).End().Time("majorityWriteDate", date)
	b.End()
	e.limits(r, b)
}

// limits adds the last fields of hello, which all kinds of servers have.
func (e *Engine) limits(r *Request, b *bsonraw.Builder) {
	b.Int32("maxBsonObjectSize", update.MaxDocument).Int32("maxMessageSizeBytes", wire.MaxMessage)
	b.Int32("maxWriteBatchSize", maxWriteBatch).Time("localTime", e.Now())
	b.Int32("logicalSessionTimeoutMinutes", 30).Int32("connectionId", r.conn.ID)
	b.Int32("minWireVersion", 0).Int32("maxWireVersion", e.Wire).Bool("readOnly", false)
}

func (e *Engine) topologyVersion(b *bsonraw.Builder) {
	b.Start("topologyVersion").ObjectID("processId", e.processID).Int64("counter", topologyCounter).End()
}

func ping(_ context.Context, _ *Engine, r *Request, _ *bsonraw.Builder) error { return r.noOptions() }

func buildInfo(_ context.Context, e *Engine, _ *Request, b *bsonraw.Builder) error {
	b.String("version", e.Version).String("gitVersion", "mongoemu").Strings("modules")
	b.String("allocator", "go").String("javascriptEngine", "none").String("sysInfo", "deprecated")
	b.StartArray("versionArray")
	parts := strings.Split(e.Version, ".")
	for i := range 4 {
		n := 0
		if i < len(parts) {
			n, _ = strconv.Atoi(parts[i])
		}
		b.Int32(bsonraw.Index(i), int32(n))
	}
	b.End()
	b.Start("openssl").String("running", "disabled").String("compiled", "disabled").End()
	b.Start("buildEnvironment").End()
	b.Int32("bits", 64).Bool("debug", false).Int32("maxBsonObjectSize", update.MaxDocument).Strings("storageEngines", "memory")
	return nil
}

func connectionStatus(_ context.Context, _ *Engine, r *Request, b *bsonraw.Builder) error {
	b.Start("authInfo").StartArray("authenticatedUsers")
	if r.conn.userName != "" {
		b.Start("0").String("user", r.conn.userName).String("db", "admin").End()
	}
	b.End().Strings("authenticatedUserRoles").End()
	return nil
}

func getParameter(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	return r.options(func(key string, _ bsonraw.Value) (bool, error) {
		if key != "featureCompatibilityVersion" {
			return false, mongoerr.Lacking("the server parameter %q", key)
		}
		parts := strings.SplitN(e.Version, ".", 3)
		b.Start(key).String("version", parts[0]+"."+parts[1]).End()
		return true, nil
	})
}

func getCmdLineOpts(_ context.Context, _ *Engine, _ *Request, b *bsonraw.Builder) error {
	b.Strings("argv", "mongoemu").Start("parsed").End()
	return nil
}
