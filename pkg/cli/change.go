package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/mattn/go-isatty"
)

// Change are the flags of a command that changes something. Embed it. If the command's
// Validate demands a reason ([Change.RequireWhy]), embed it with the tag set:"why=required", which says so in the
// help.
type Change struct {
	Yes bool   `name:"yes" help:"Make the change without asking. Required if there is no terminal, as in kubectl exec without -it."`
	Why string `name:"why" placeholder:"TEXT" help:"Reason for the change, for the audit; ${why}."`
	Who string `name:"who" env:"PENSTOCK_WHO" placeholder:"NAME" help:"Name of the person, for the audit; the default is the user of this process. The host is appended: in a cluster it is the pod."`
}

// ErrNotConfirmed says that nothing was changed, because the change was not confirmed.
var ErrNotConfirmed = errors.New("nothing was changed")

// Person names who makes the change: NAME@HOST.
func (c Change) Person() string {
	name := cmp.Or(c.Who, os.Getenv("USER"))
	if name == "" {
		// Without /etc/passwd in the image, only the number is known.
		name = fmt.Sprintf("uid-%d", os.Getuid())
		if u, err := user.Current(); err == nil && u.Username != "" {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return name + "@" + host
}

// RequireWhy fails if the change has no reason. ask asks for it: "give the reason, …".
func (c Change) RequireWhy(ask string) error {
	if strings.TrimSpace(c.Why) == "" {
		return errors.New("--why is not set: " + ask)
	}
	return nil
}

// Confirm asks for confirmation of what, such as "retry 12 parked aggregates", unless --yes
// is set. It reads the answer from in, which is nil without a terminal: see [Terminal]. The
// error is [ErrNotConfirmed] with the remedy, or ctx's cause.
func (c Change) Confirm(ctx context.Context, in io.Reader, out io.Writer, what string) error {
	if c.Yes {
		return nil
	}
	if in == nil {
		return fmt.Errorf("this would %s: %w; repeat it with --yes", what, ErrNotConfirmed)
	}
	fmt.Fprintf(out, "This will %s. Continue? [y/N] ", what)
	answered := make(chan string, 1)
	// A blocked read of a terminal cannot be interrupted, so after a signal the process
	// exits without waiting for it.
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answered <- line
	}()
	select {
	case line := <-answered:
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(out) // the terminal shows no end of line for the end of the input
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return ErrNotConfirmed
	case <-ctx.Done():
		fmt.Fprintln(out)
		return context.Cause(ctx)
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	if r, ok := w.(*Result); ok {
		w = r.to
	}
	file, ok := w.(*os.File)
	return ok && Terminal(file) != nil
}

// Terminal returns file if it is a terminal, otherwise nil.
func Terminal(file *os.File) io.Reader {
	if !isatty.IsTerminal(file.Fd()) {
		return nil
	}
	return file
}
