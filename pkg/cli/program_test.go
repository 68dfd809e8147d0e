package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// A script that finds status 0 takes the file for complete.
func TestCommandFailsIfItsResultIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for name, test := range map[string]struct {
		stdout io.Writer
		ran    error
		code   int
		want   string
	}{
		"written":        {io.Discard, nil, 0, ""},
		"lost":           {full, nil, 1, "service verify: print the result: write /dev/full: no space left on device\n"},
		"lost findings":  {full, cli.ErrFindings, 1, "service verify: print the result: write /dev/full: no space left on device\n"},
		"lost and wrong": {full, cli.ErrUsage, 2, ""},
		"lost, failed":   {full, errors.New("no store"), 1, "service verify: no store\n"},
	} {
		var stderr bytes.Buffer
		code := cli.Run(t.Context(), "service", nil, &stderr, func(func(string) (string, bool)) (cli.Program, error) {
			result := cli.NewResult(test.stdout)
			return cli.Program{Command: "verify", Result: result, Run: func(context.Context) error {
				fmt.Fprintln(result, "3 read models are wrong")
				return test.ran
			}}, nil
		})
		if code != test.code || stderr.String() != test.want {
			t.Errorf("%s: code %d, want %d; stderr %q, want %q", name, code, test.code, &stderr, test.want)
		}
	}
}
