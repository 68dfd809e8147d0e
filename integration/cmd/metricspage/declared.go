package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/virtual"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// startTimeout bounds the start of both services.
const startTimeout = time.Minute

// declared returns the metrics that each service registers, by its name. It starts both in a
// network in memory, because they register some of them when they have reached their servers.
func declared(ctx context.Context) (_ map[virtual.Kind][]metric, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %s", startTimeout))
	defer cancel()
	dir, err := os.MkdirTemp("", "metricspage-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	network := virtual.NewNetwork(1)
	backend, err := harness.StartEmbedded(harness.EmbeddedOptions{
		MongoListener: network.Listen(virtual.MongoDB), BrokerListener: network.Listen(virtual.ServiceBus),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	test := network.NewHost("metricspage")
	client, err := mongo.Connect(options.Client().ApplyURI(backend.MongoURI()).SetDialer(test.Dialer(virtual.MongoDB)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	if _, err := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection).Indexes().CreateOne(ctx, workload.Index()); err != nil {
		return nil, err
	}
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Dir: dir, Projections: []byte("projections: [{name: any, collection: any, on: {Any: {inc: {n: '1'}}}}]\n"),
	})
	if err != nil {
		return nil, err
	}
	found := make(map[virtual.Kind][]metric)
	for _, service := range services {
		var log strings.Builder
		p := virtual.Start(network, virtual.Spec{Kind: service, Name: string(service), Env: append(pipeline.Settings(), "PENSTOCK_QUERY_ADDRESS=:8081"), Stdout: io.Discard, Stderr: &log})
		ready := proc.Await(ctx, 20*time.Millisecond, "a ready "+string(service), func() (bool, error) { return isReady(ctx, test, p), nil })
		if ready == nil {
			found[service], ready = registered(p.Registry())
		}
		p.Terminate()
		<-p.Exited()
		if ready != nil {
			return nil, fmt.Errorf("start the %s: %w\n%s", service, ready, log.String())
		}
	}
	return found, nil
}

func isReady(ctx context.Context, from *virtual.Host, p *virtual.Process) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin()+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	answer, err := from.Client().Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// description matches what a description prints: its name, help and labels.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: (".*"), unit: ".*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// registered returns the metrics of a registry. A metric without a series shows no type: it is a
// counter if its name says so, and a gauge otherwise.
func registered(registry *prometheus.Registry) ([]metric, error) {
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	kinds := make(map[string]string)
	for _, family := range families {
		kinds[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	var all []metric
	for d := range descriptions {
		parts := description.FindStringSubmatch(d.String())
		if parts == nil {
			err = errors.Join(err, fmt.Errorf("read the description %s", d))
			continue
		}
		if !strings.HasPrefix(parts[1], "penstock_") {
			continue
		}
		m := metric{name: parts[1], kind: kinds[parts[1]]}
		if m.kind == "" {
			m.kind = "gauge"
			if strings.HasSuffix(m.name, "_total") {
				m.kind = "counter"
			}
		}
		help, quoted := strconv.Unquote(parts[2])
		m.help, err = help, errors.Join(err, quoted)
		for label := range strings.SplitSeq(parts[3]+parts[4], ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				m.labels = append(m.labels, name)
			}
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return all, err
}

// metric is a metric as a service registers it.
type metric struct {
	name, kind, help string
	labels           []string
}
