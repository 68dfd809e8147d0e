package command

import (
	"context"
	"os"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func replSetGetStatus(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if err := r.noOptions(); err != nil {
		return err
	}
	newest := e.Store.OperationTime()
	now := e.Now()
	optime := func(name string) { b.Start(name).Timestamp("ts", newest).Int64("t", term).End() }
	b.String("set", e.SetName).Time("date", now).Int32("myState", 1).Int64("term", term)
	b.String("syncSourceHost", "").Int32("syncSourceId", -1).Int64("heartbeatIntervalMillis", 2000)
	b.Int32("majorityVoteCount", 1).Int32("writeMajorityCount", 1)
	b.Start("optimes")
	for _, name := range []string{"lastCommittedOpTime", "readConcernMajorityOpTime", "appliedOpTime", "durableOpTime"} {
		optime(name)
	}
	b.Time("lastCommittedWallTime", now).Time("lastAppliedWallTime", now).Time("lastDurableWallTime", now).End()
	b.StartArray("members").Start("0")
	b.Int32("_id", 0).String("name", e.Host).Double("health", 1).Int32("state", 1).String("stateStr", "PRIMARY")
	b.Int32("uptime", int32(now.Sub(e.started).Seconds()))
	optime("optime")
	b.Time("optimeDate", now).Int32("configVersion", 1).Bool("self", true)
	b.End().End()
	return nil
}

func serverStatus(_ context.Context, e *Engine, _ *Request, b *bsonraw.Builder) error {
	host, _ := os.Hostname()
	b.String("host", host).String("version", e.Version).String("process", "mongod").Int64("pid", int64(os.Getpid()))
	b.Double("uptime", e.Now().Sub(e.started).Seconds()).Time("localTime", e.Now())
	b.Start("storageEngine").String("name", "memory").Bool("supportsCommittedReads", true).End()
	b.Start("repl").String("setName", e.SetName).Bool("ismaster", true).String("me", e.Host).End()
	return nil
}

func collStats(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if n, _ := bsonraw.Int64(v); key == "scale" && n == 1 {
			return true, nil
		}
		return false, mongoerr.Lacking("the collStats option %q", key)
	}); err != nil {
		return err
	}
	b.String("ns", ns.String())
	if e.Sharded {
		_, sharded := e.cluster.get(ns)
		b.Bool("sharded", sharded)
	}
	if ns == oplogNamespace {
		s := e.Store.Log().Stats()
		number(b, "size", s.Bytes)
		b.Int32("count", int32(s.Entries))
		b.Bool("capped", true).Int32("max", -1)
		number(b, "maxSize", s.Limits.Bytes)
		b.Int32("nindexes", 0).Int32("scaleFactor", 1)
		return nil
	}
	return e.Store.View(nil, func(v *store.Viewer) error {
		c := v.Collection(ns)
		if c == nil {
			b.Int32("size", 0).Int32("count", 0).Int32("storageSize", 0).Int32("nindexes", 0).Bool("capped", false)
			return nil
		}
		number(b, "size", c.Bytes())
		b.Int32("count", int32(c.Len()))
		if c.Len() > 0 {
			number(b, "avgObjSize", c.Bytes()/int64(c.Len()))
		}
		number(b, "storageSize", c.Bytes())
		b.Bool("capped", false).Int32("nindexes", int32(len(c.Indexes()))).Int32("scaleFactor", 1)
		return nil
	})
}

// number adds an int if n fits, otherwise a long, as the server's statistics do.
func number(b *bsonraw.Builder, key string, n int64) {
	if n == int64(int32(n)) {
		b.Int32(key, int32(n))
		return
	}
	b.Int64(key, n)
}
