package app

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

func TestTermsAreTimedByTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []config.Election{
		{Kind: config.ElectionMongoDB, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second},
		{Kind: config.ElectionKubernetes, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
	} {
		timing := leaderConfig(config.Config{Election: c, Process: config.Process{DrainTimeout: 20 * time.Second}})
		if timing.StopTimeout <= 20*time.Second {
			t.Errorf("%s: a drain of 20 s is cut off after %v", c.Kind, timing.StopTimeout)
		}
	}
}

// Nothing listens at this MongoDB address, and the publisher would wait for it.
func TestMissingElectionSettingIsReportedBeforeConnecting(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	environ := map[string]string{
		"MONGODB_URI":                        "mongodb://127.0.0.1:1/?replicaSet=rs0",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true",
		"AZURE_SERVICEBUS_TOPIC_NAME":        "events",
		"PENSTOCK_ADMIN_ADDRESS":             "127.0.0.1:0",
	}
	lookup := func(name string) (string, bool) {
		value, ok := environ[name]
		return value, ok
	}
	service, err := Parse(nil, lookup, io.Discard, os.Stderr, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := service.Run(ctx); err == nil || !strings.Contains(err.Error(), "outside Kubernetes use PENSTOCK_ELECTION=mongodb") {
		t.Errorf("ended with %v", err)
	}
}
