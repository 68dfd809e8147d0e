package cli_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// service is a configuration as a service declares it.
type service struct {
	MongoDB mongox.Config `embed:"" group:"MongoDB"`
	Bus     sbus.Config   `embed:"" group:"Service Bus"`
	Fields  event.Fields  `embed:"" group:"Event fields"`
	Logging obs.Config    `embed:"" group:"Logging"`

	Lease    lease    `embed:"" prefix:"lease-" group:"Election"`
	Identity string   `env:"PENSTOCK_IDENTITY" help:"Name of this process."`
	Buckets  int      `name:"session-buckets" env:"PENSTOCK_SESSION_BUCKETS" default:"64" help:"Number of sessions."`
	Workers  uint     `env:"PENSTOCK_WORKERS" default:"4" help:"Number of workers."`
	Ratio    float64  `env:"PENSTOCK_RATIO" default:"0.5" help:"A ratio."`
	Pprof    bool     `env:"PENSTOCK_PPROF" negatable:"" help:"Serve pprof."`
	Tags     []string `env:"PENSTOCK_TAGS" enum:"a,b,c" help:"Tags."`
}

type lease struct {
	Duration time.Duration `env:"PENSTOCK_LEASE_DURATION" default:"15s" help:"How long a lease lasts."`
	Renew    time.Duration `name:"renew-deadline" env:"PENSTOCK_LEASE_RENEW_DEADLINE" default:"10s" help:"When a leader gives up."`
}

func (s *service) CheckFor(any) error {
	problems := []error{s.MongoDB.Check(), s.Bus.Check(), s.Fields.Check()}
	if s.Lease.Renew >= s.Lease.Duration {
		problems = append(problems, fmt.Errorf("PENSTOCK_LEASE_RENEW_DEADLINE is %s, not below PENSTOCK_LEASE_DURATION: choose a shorter one", s.Lease.Renew))
	}
	if s.Identity == "nobody" {
		problems = append(problems, errors.New("nobody leads:\nchoose a name"))
	}
	return errors.Join(problems...)
}

// tool is a configuration with commands.
type tool struct {
	URI string   `name:"uri" env:"URI" help:"Where."`
	Run struct{} `cmd:"" default:"1" help:"Run the service."`
	Do  struct {
		Retry retry `cmd:"" help:"Try again."`
		Walk  struct {
			Depth int       `help:"How deep."`
			Of    string    `help:"Only one; otherwise all."`
			Named []string  `help:"Only these; otherwise all."`
			Since time.Time `help:"From when on."`
		} `cmd:"" help:"Walk."`
	} `cmd:"" help:"Do something."`
}

type retry struct {
	Limit      int    `env:"LIMIT" required:"" help:"Give the most that are tried."`
	Projection string `arg:"" help:"The projection."`
}

func (r *retry) Validate() error {
	if r.Limit > 10 {
		return errors.New("LIMIT is above 10: lower it")
	}
	return nil
}

// selective is a configuration whose commands need different parts of it.
type selective struct {
	URI  string   `name:"uri" env:"URI" help:"Where."`
	Run  needsURI `cmd:"" default:"1" help:"Run the service."`
	List struct{} `cmd:"" help:"List."`
}

type needsURI struct{}

func (s *selective) CheckFor(command any) error {
	if _, ok := command.(*needsURI); ok && s.URI == "" {
		return errors.New("URI is not set: set it")
	}
	return nil
}
