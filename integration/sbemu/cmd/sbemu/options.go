package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

const description = `A stand-in for Azure Service Bus, in memory, for development and tests. It prints the connection ` +
	`string to use (with UseDevelopmentEmulator=true, so plain AMQP) and stops on SIGTERM. ` +
	`Without --topic, --queue and --config it has a topic "events" with duplicate detection over 10 minutes and a ` +
	`session subscription "projector" with locks of 30 s. Entities are declared as NAME:key=value:key=value…; ` +
	`for example: --topic events:dedup=10m:subscription=projector:sessions=true:lock=30s`

// options are the command's flags.
type options struct {
	Address        string   `help:"Where to listen for AMQP." env:"SBEMU_ADDRESS" default:"127.0.0.1:5672"`
	HTTPAddress    string   `help:"Where to serve the administration API and /health without TLS, empty: nowhere. Microsoft's emulator uses port 5300." env:"SBEMU_HTTP_ADDRESS"`
	Config         string   `help:"File with entities, in the form of Config.json of Microsoft's emulator." env:"SBEMU_CONFIG" placeholder:"FILE"`
	As             string   `help:"Whose limits to have: azure (no limits of the namespace), or emulator (10 connections, 50 queues and topics, messages of an hour, duplicates over 5 minutes, no partitions)." env:"SBEMU_AS" enum:"azure,emulator" default:"azure"`
	Topic          []string `help:"A topic: NAME with dedup=DURATION partitioned=BOOL max-message=BYTES max-batch=BYTES ttl=DURATION disabled=BOOL, then for each subscription subscription=NAME with sessions=BOOL lock=DURATION max-deliveries=COUNT ttl=DURATION dead-letter-expired=BOOL disabled=BOOL; at the very end filter=SQL selects messages for the last subscription." placeholder:"SPEC" sep:"none"`
	Queue          []string `help:"A queue: NAME with the keys of topics and of subscriptions." placeholder:"SPEC" sep:"none"`
	TLSAddress     string   `help:"Where to listen for AMQP over TLS, empty: nowhere. SDKs want port 5671." env:"SBEMU_TLS_ADDRESS"`
	AdminAddress   string   `help:"Where to serve the management API and AMQP over WebSockets, over TLS, empty: nowhere. SDKs want port 443." env:"SBEMU_ADMIN_ADDRESS"`
	TLSCertificate string   `help:"File with the certificate, for both." env:"SBEMU_TLS_CERTIFICATE" placeholder:"FILE"`
	TLSKey         string   `help:"File with its key." env:"SBEMU_TLS_KEY" placeholder:"FILE"`

	Version kong.VersionFlag `help:"Print the version."`
}

// asEmulator is the value of --as for the limits of Microsoft's emulator.
const asEmulator = "emulator"

// Validate returns every problem of the flags at once.
func (o *options) Validate() error {
	cfg, err := o.config()

	return errors.Join(err, cfg.Validate())
}

// config returns the namespace that the flags declare.
func (o *options) config() (sbemu.Config, error) {
	var (
		cfg  = sbemu.Config{}
		errs []error
	)

	switch {
	case o.Config != "":
		var err error

		cfg, err = readEmulatorFile(o.Config)
		errs = append(errs, err)
	case len(o.Topic)+len(o.Queue) == 0:
		cfg = sbemu.Default()

		if o.As == asEmulator {
			cfg.Topics[0].DuplicateDetectionWindow = sbemu.EmulatorLimits().DuplicateDetectionWindow
		}
	}

	if o.As == asEmulator {
		cfg.Limits = sbemu.EmulatorLimits()
	}

	cfg.Address = o.Address

	if o.TLSAddress != "" || o.AdminAddress != "" {
		certificate, err := tls.LoadX509KeyPair(o.TLSCertificate, o.TLSKey)
		if err != nil {
			errs = append(errs, fmt.Errorf("--tls-certificate and --tls-key: %w: both files are needed", err))
		}

		cfg.TLS = &sbemu.TLS{
			Config:       &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			Address:      o.TLSAddress,
			AdminAddress: o.AdminAddress,
		}
	}

	for _, spec := range o.Topic {
		t, err := parseTopic(spec)
		errs = append(errs, err)
		cfg.Topics = append(cfg.Topics, t)
	}

	for _, spec := range o.Queue {
		q, err := parseQueue(spec)
		errs = append(errs, err)
		cfg.Queues = append(cfg.Queues, q)
	}

	return cfg, errors.Join(errs...)
}

// keys maps each key of a declaration to the function that sets its value.
type keys map[string]func(string) error

func parseTopic(spec string) (sbemu.Topic, error) {
	name, settings, _ := strings.Cut(spec, ":")
	t := sbemu.Topic{Name: name}
	known := keys{
		"dedup":       duration(&t.DuplicateDetectionWindow),
		"partitioned": boolean(&t.Partitioned),
		"max-message": unsigned(&t.MaxMessageSize),
		"max-batch":   unsigned(&t.MaxBatchSize),
		"ttl":         duration(&t.DefaultTTL),
		"disabled":    boolean(&t.Disabled),
	}

	var errs []error

	settings, expression, filtered := strings.Cut(":"+settings, ":filter=")

	for setting := range strings.SplitSeq(settings, ":") {
		if setting == "" {
			continue
		}

		if sub, ok := strings.CutPrefix(setting, "subscription="); ok {
			t.Subscriptions = append(t.Subscriptions, sbemu.Subscription{Name: sub})
			s := &t.Subscriptions[len(t.Subscriptions)-1]
			known = keys{
				"sessions":            boolean(&s.RequiresSession),
				"lock":                duration(&s.LockDuration),
				"max-deliveries":      unsigned(&s.MaxDeliveryCount),
				"ttl":                 duration(&s.DefaultTTL),
				"dead-letter-expired": boolean(&s.DeadLetterExpired),
				"disabled":            boolean(&s.Disabled),
			}

			continue
		}

		errs = append(errs, known.set("--topic", spec, setting))
	}

	switch last := len(t.Subscriptions) - 1; {
	case filtered && last < 0:
		errs = append(errs, fmt.Errorf("--topic %q: filter needs a subscription before it: %w", spec, errDeclaration))
	case filtered:
		t.Subscriptions[last].Rules = []sbemu.Rule{{Name: "filter", SQL: expression}}
	}

	return t, errors.Join(errs...)
}

func parseQueue(spec string) (sbemu.Queue, error) {
	name, settings, _ := strings.Cut(spec, ":")
	q := sbemu.Queue{Name: name}
	known := keys{
		"dedup":               duration(&q.DuplicateDetectionWindow),
		"partitioned":         boolean(&q.Partitioned),
		"max-message":         unsigned(&q.MaxMessageSize),
		"max-batch":           unsigned(&q.MaxBatchSize),
		"ttl":                 duration(&q.DefaultTTL),
		"sessions":            boolean(&q.RequiresSession),
		"lock":                duration(&q.LockDuration),
		"max-deliveries":      unsigned(&q.MaxDeliveryCount),
		"dead-letter-expired": boolean(&q.DeadLetterExpired),
		"disabled":            boolean(&q.Disabled),
	}

	var errs []error

	for setting := range strings.SplitSeq(settings, ":") {
		if setting != "" {
			errs = append(errs, known.set("--queue", spec, setting))
		}
	}

	return q, errors.Join(errs...)
}

// errDeclaration means that a declaration is malformed.
var errDeclaration = errors.New("declare it as NAME:key=value:key=value, see --help")

func (k keys) set(flag, spec, setting string) error {
	key, value, found := strings.Cut(setting, "=")

	set := k[key]
	if !found || set == nil {
		return fmt.Errorf("%s %q: %q is not known here: %w", flag, spec, setting, errDeclaration)
	}

	if err := set(value); err != nil {
		return fmt.Errorf("%s %q: value of %s: %w", flag, spec, key, err)
	}

	return nil
}

func duration(to *time.Duration) func(string) error {
	return func(s string) (err error) {
		*to, err = time.ParseDuration(s)

		return err
	}
}

func boolean(to *bool) func(string) error {
	return func(s string) (err error) {
		*to, err = strconv.ParseBool(s)

		return err
	}
}

func unsigned[T uint32 | uint64](to *T) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		*to = T(n)

		return err
	}
}
