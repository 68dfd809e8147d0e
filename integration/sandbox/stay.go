package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// folderPoll is how often the folder of projections is read.
const folderPoll = 500 * time.Millisecond

// Files in the folder of a demo that keeps running.
const (
	// ProjectionsFolder holds the projections that the projectors run.
	ProjectionsFolder = "projections"
	// environmentFile sets the variables that the services' commands need, for a shell.
	environmentFile = "env"
	// demoProjections is the file of the demo's own projections.
	demoProjections = "demo.yaml"
)

// StayOptions describe a pipeline that keeps running after the demo.
type StayOptions struct {
	// Backend holds the events and read models of the previous run; it stays open.
	Backend  harness.Backend
	Binaries harness.Binaries
	// Dir gets the projections folder, the environment file and the services' logs.
	Dir string
	// Projections are the demo's own.
	Projections []byte
	// Print prints one line for each event that a person should see.
	Print func(line string)
}

// Stay runs the services until ctx ends, and then stops them cleanly. The projectors read
// their projections from a folder. Whenever the folder has changed and `projector check`
// accepts it, Stay replaces the projectors one by one. If the folder has mistakes, nothing
// changes: Stay prints the output of `projector check`.
func Stay(ctx context.Context, opts StayOptions) (err error) {
	// The commands may run in any folder.
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return fmt.Errorf("find the folder %s: %w", opts.Dir, err)
	}
	s := &stay{opts: opts, folder: filepath.Join(opts.Dir, ProjectionsFolder)}
	if err := s.open(); err != nil {
		return err
	}
	defer s.pipeline.Kill()
	err = s.start(ctx)
	if err == nil {
		err = s.follow(ctx)
	}
	// After the end of ctx, an error only says that an operation was interrupted.
	if err != nil && ctx.Err() == nil {
		return err
	}
	if err := s.pipeline.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.opts.Print("the pipeline has stopped")
	return nil
}

// stay is a pipeline that keeps running, with its folder of projections.
type stay struct {
	opts     StayOptions
	folder   string
	pipeline *harness.Pipeline
	// seen is the last read content of the folder, and tried the content on which Stay
	// acted last.
	seen, tried string
}

// open writes the files, and prepares the pipeline over them.
func (s *stay) open() error {
	if err := os.MkdirAll(s.folder, 0o750); err != nil {
		return fmt.Errorf("make the folder of projections: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.folder, demoProjections), s.opts.Projections, 0o600); err != nil {
		return fmt.Errorf("write the demo's projections: %w", err)
	}
	var err error
	s.pipeline, err = harness.NewPipeline(s.opts.Backend, harness.PipelineOptions{
		Programs: s.opts.Binaries, Dir: s.opts.Dir, Projections: s.opts.Projections,
		ProjectorEnv: []string{"PENSTOCK_PROJECTIONS=" + s.folder},
	})
	if err != nil {
		return err
	}
	var env strings.Builder
	for _, setting := range s.pipeline.Settings() {
		name, value, _ := strings.Cut(setting, "=")
		fmt.Fprintf(&env, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	if err := os.WriteFile(filepath.Join(s.opts.Dir, environmentFile), []byte(env.String()), 0o600); err != nil {
		return fmt.Errorf("write the environment file: %w", err)
	}
	return nil
}

// start starts the services. If the folder has wrong files of an earlier demo, the
// projectors start when the folder is correct.
func (s *stay) start(ctx context.Context) error {
	for n := range publishers {
		process, err := s.pipeline.StartPublisher(fmt.Sprintf("%s%d", publisherPrefix, n))
		if err == nil {
			err = ready(ctx, process, s.opts.Print)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if s.seen, err = readFolder(s.folder); err != nil {
		return err
	}
	if err := s.change(ctx); err != nil {
		return err
	}
	s.opts.Print("the pipeline stays up until Ctrl-C")
	s.opts.Print("projections: " + s.folder)
	s.opts.Print("settings for the commands: " + filepath.Join(s.opts.Dir, environmentFile))
	return nil
}

// follow acts on each change of the folder until ctx ends. It acts when two consecutive
// reads are equal, so it does not use a file that is still being written.
func (s *stay) follow(ctx context.Context) error {
	for poll.Wait(ctx, folderPoll) == nil {
		before := s.seen
		var err error
		if s.seen, err = readFolder(s.folder); err != nil {
			return err
		}
		if s.seen != before || s.seen == s.tried {
			continue
		}
		if err := s.change(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change checks the folder, and restarts each projector with it. It reports a projector
// that does not start; the next change of the folder starts that projector again.
func (s *stay) change(ctx context.Context) error {
	s.tried = s.seen
	checked, err := s.pipeline.Projector(ctx, "check", s.folder)
	if err != nil {
		return err
	}
	// Status 1 means advice only, and a projector would start.
	if checked.Status > 1 {
		s.opts.Print("the projections are wrong, and the projectors keep the last ones:")
		for line := range strings.Lines(string(checked.Stderr)) {
			s.opts.Print(strings.TrimRight(line, "\n"))
		}
		return nil
	}
	switch err := s.replaceAll(ctx); {
	case err == nil:
		s.opts.Print("every projector has the projections of " + strings.Join(fileNames(s.folder), ", "))
	case ctx.Err() == nil:
		s.opts.Print(err.Error())
	}
	return nil
}

// replaceAll replaces the projectors one by one.
func (s *stay) replaceAll(ctx context.Context) error {
	for n := range projectors {
		if err := replace(ctx, s.pipeline, fmt.Sprintf("projector-%d", n), s.opts.Print); err != nil {
			return err
		}
	}
	return nil
}

// replace stops a projector, if it runs, and starts it with the present projections.
func replace(ctx context.Context, pipeline *harness.Pipeline, name string, note func(string)) error {
	for _, process := range pipeline.Running() {
		if process.Name == name {
			if err := process.Stop(ctx); err != nil {
				return err
			}
		}
	}
	process, err := pipeline.StartProjector(name)
	if err != nil {
		return err
	}
	return ready(ctx, process, note)
}

// ready waits until a service is ready, and notes the address of its status page.
func ready(ctx context.Context, process *harness.Process, note func(string)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stallTimeout, fmt.Errorf("not within %s", stallTimeout))
	defer cancel()
	if err := process.AwaitReady(ctx); err != nil {
		return err
	}
	note(statusPage(process))
	return nil
}

// fileNames lists the projections files of the folder, sorted by name.
func fileNames(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		ext := filepath.Ext(name)
		if !entry.IsDir() && !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml") && !strings.HasSuffix(name, "_test"+ext) {
			names = append(names, name)
		}
	}
	return names
}

// readFolder returns the content of the folder's projections files, for comparisons. A file
// that disappears between the list and the read counts as absent.
func readFolder(folder string) (string, error) {
	var content strings.Builder
	for _, name := range fileNames(folder) {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the folder of projections: %w", err)
		}
		fmt.Fprintf(&content, "%s %d\n%s", name, len(text), text)
	}
	return content.String(), nil
}
