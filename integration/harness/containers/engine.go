package containers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// engineTimeout bounds the check for an engine.
const engineTimeout = 10 * time.Second

// noEngine is the error of [Start] without an engine, in one sentence.
func noEngine(cause error) error {
	return fmt.Errorf("the backend %q needs a Docker engine, and none answers: %s; start one, or leave %s unset",
		harness.KindContainers, strings.Join(strings.Fields(cause.Error()), " "), harness.KindVariable)
}

// checkEngine checks whether an engine answers.
func checkEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, engineTimeout, fmt.Errorf("not within %s", engineTimeout))
	defer cancel()
	// If the environment names an engine, only that one may be used: testcontainers looks
	// for another one if it does not answer.
	if os.Getenv("DOCKER_HOST") != "" {
		if err := pingNamed(ctx); err != nil {
			return noEngine(err)
		}
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return noEngine(err)
	}
	defer provider.Close()
	if err := provider.Health(ctx); err != nil {
		return noEngine(err)
	}
	return nil
}

// pingNamed pings the engine that DOCKER_HOST names.
func pingNamed(ctx context.Context) error {
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return err
	}
	defer engine.Close()
	_, err = engine.Ping(ctx, client.PingOptions{})
	return err
}
