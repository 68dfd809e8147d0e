package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

func TestMainGivesTheExitCode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepared, ran error
		command       string
		code          int
		// silent means that nothing is logged.
		silent bool
	}{
		"help":           {prepared: cli.ErrHelp, code: 0},
		"wrong":          {prepared: cli.ErrUsage, code: 2},
		"unprepared":     {prepared: errors.New("no log"), code: 1},
		"failed":         {ran: errors.New("no topic"), code: 1},
		"ended in order": {code: 0},
		"findings":       {ran: fmt.Errorf("verify: %w", cli.ErrFindings), code: 1, silent: true},
		"command failed": {ran: errors.New("no store"), command: "parked list", code: 1, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			ran := false
			code := cli.Main("service", func([]string, func(string) (string, bool), io.Writer, io.Writer) (cli.Program, error) {
				return cli.Program{
					Run:     func(context.Context) error { ran = true; return test.ran },
					Logger:  zerolog.New(&log),
					Command: test.command,
				}, test.prepared
			})
			if code != test.code || ran == (test.prepared != nil) {
				t.Errorf("code %d, want %d; ran: %t", code, test.code, ran)
			}
			if test.ran != nil && strings.Contains(log.String(), test.ran.Error()) == test.silent {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
}

func TestMainEndsRunBySignal(t *testing.T) {
	t.Parallel()
	code := cli.Main("service", func([]string, func(string) (string, bool), io.Writer, io.Writer) (cli.Program, error) {
		return cli.Program{Run: func(ctx context.Context) error {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}, nil
	})
	if code != 0 {
		t.Errorf("code %d", code)
	}
}
