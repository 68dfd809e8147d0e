package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Output is what a command printed, and its exit status.
type Output struct {
	Status         int
	Stdout, Stderr []byte
}

// Projector runs a command of the projector, such as "jobs", "list", with the settings of
// the projectors. Like `kubectl exec` without -t, it gives the command no terminal. An exit
// status other than 0 is no error.
func (p *Pipeline) Projector(ctx context.Context, args ...string) (Output, error) {
	return p.opts.Programs.Run(ctx, Projector, append([]string{"HOME=" + p.opts.Dir}, p.projectorEnv()...), args)
}

// Publisher runs a command of the publisher, such as "quarantine", "list", in the same
// way.
func (p *Pipeline) Publisher(ctx context.Context, args ...string) (Output, error) {
	p.mu.Lock()
	env := slices.Concat([]string{"HOME=" + p.opts.Dir}, p.publisherEnv(), p.env)
	p.mu.Unlock()
	return p.opts.Programs.Run(ctx, Publisher, env, args)
}

// Settings are the variables of both services, as NAME=value, for commands that run beside
// the pipeline.
func (p *Pipeline) Settings() []string {
	settings := p.projectorEnv()
	for _, setting := range p.publisherEnv() {
		if !slices.Contains(settings, setting) {
			settings = append(settings, setting)
		}
	}
	return settings
}

// Run implements [Programs].
func (b Binaries) Run(ctx context.Context, service Service, env, args []string) (Output, error) {
	program := b.path(service)
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Env = env
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return Output{}, fmt.Errorf("run %s %s: %w", filepath.Base(program), strings.Join(args, " "), errors.Join(context.Cause(ctx), err))
	}
	return Output{Status: command.ProcessState.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}
