// Program serve shows a read model to browsers. See package watcher.
//
//	MONGODB_URI=… serve users        # then open http://localhost:8090
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/examples/watcher"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "watcher:", err)
		os.Exit(1)
	}
}

// retry is the wait before the collection is read anew after an error.
const retry = time.Second

func run(ctx context.Context, args []string) error {
	uri := os.Getenv("MONGODB_URI")
	if len(args) != 1 || uri == "" {
		return errors.New("set MONGODB_URI, and give the collection of a read model: watcher users")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetAppName("watcher"))
	if err != nil {
		return fmt.Errorf("connect to MongoDB: %w", err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	// The variable and default of the projector, which writes the collection.
	database := cmp.Or(os.Getenv("PENSTOCK_READMODELS_DATABASE"), "penstock")
	models := watcher.NewCopy(client.Database(database).Collection(args[0]))

	logger := zerolog.New(os.Stderr).With().Timestamp().Logger()
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDRESS"), "localhost:8090"), Handler: watcher.Handler(models), ReadHeaderTimeout: 10 * time.Second}
	serving := make(chan error, 1)
	go func() { serving <- server.ListenAndServe() }()
	defer func() { _ = server.Close() }()
	for {
		err := models.Follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		logger.Warn().Err(err).Msg("collection not followed; reading it anew")
		select {
		case err := <-serving:
			return err
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}
