package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// mongoPort is the port of every mongod and mongosh without --port.
const mongoPort = "27017"

// oplogBytes is the smallest default of MongoDB for the size of the oplog:
// https://www.mongodb.com/docs/manual/core/replica-set-oplog/
const oplogBytes = 990 << 20

// mongod serves mongoemu until ctx ends.
func mongod(ctx context.Context, args []string, stdout io.Writer) (err error) {
	c := mongoemu.Config{Address: ":" + mongoPort, OplogBytes: oplogBytes}
	flags := flag.NewFlagSet("mongod", flag.ContinueOnError)
	flags.StringVar(&c.ReplicaSet, "replSet", "", "`name` of the replica set")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := mongoemu.New(c)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	// Everybody who waits for a mongod waits for this message.
	fmt.Fprintf(stdout, `{"c":"NETWORK","msg":"Waiting for connections","attr":{"port":%s,"ssl":"off"}}`+"\n", mongoPort)
	<-ctx.Done()
	return nil
}

// initiation is the call that makes a replica set. The stand-in is one from the start.
var initiation = regexp.MustCompile(`^rs\.initiate\(\{ _id: '([^']+)', members: \[ \{ _id: 0, host: '[^']+' \} \] \}\)$`)

// mongosh evaluates the expression of --eval.
func mongosh(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("mongosh", flag.ContinueOnError)
	flags.Bool("quiet", false, "print nothing else")
	expression := flags.String("eval", "", "`expression` to evaluate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:" + mongoPort + "/?directConnection=true").
		SetServerSelectionTimeout(5 * time.Second))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	status, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetGetStatus", Value: 1}}).Raw()
	if err != nil {
		return err
	}
	set := status.Lookup("set").StringValue()
	switch match := initiation.FindStringSubmatch(*expression); {
	case match != nil && match[1] != set:
		return fmt.Errorf("initiate the replica set %q: the server was started with --replSet %q", match[1], set)
	case match != nil:
		fmt.Fprintln(stdout, "{ ok: 1 }")
	case *expression == "rs.status().ok":
		fmt.Fprintln(stdout, 1)
	default:
		return fmt.Errorf("evaluate %q: not supported", *expression)
	}
	return nil
}
