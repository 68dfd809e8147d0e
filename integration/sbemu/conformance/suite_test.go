package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// module writes a module with live tests of every kind.
func module(t *testing.T) string {
	t.Helper()

	dir := t.TempDir()

	for name, content := range map[string]string{
		"go.mod": "module example\n\ngo 1.25\n",
		"good/good_test.go": `package good

import (
	"os"
	"testing"
	"time"
)

func live(t *testing.T) {
	if os.Getenv("AZURE_RECORD_MODE") == "playback" {
		t.Skip("live")
	}
}

func TestRecorded(t *testing.T) {}
func TestPasses(t *testing.T)  { live(t) }
func TestFails(t *testing.T)   { live(t); t.Fatal("it does") }
func TestSkips(t *testing.T)   { live(t); t.Skip("no reason") }
func TestPanics(t *testing.T)  { live(t); panic("at the disco") }
func TestZAfter(t *testing.T)  { live(t) }
func TestZHangs(t *testing.T)  {
	live(t)
	if os.Getenv("HANG") != "" {
		time.Sleep(time.Hour)
	}
}
`,
		"bad/bad_test.go": "package bad\n\nfunc nonsense {\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// check runs the suites and checks the output and the verdict.
func check(t *testing.T, ctx context.Context, suites []suite, only string, enough bool, lines ...string) { //nolint:revive // the test comes first
	t.Helper()

	var out strings.Builder
	if got := runSuites(ctx, suites, nil, module(t), nil, options{Run: only}, &out); got != enough {
		t.Errorf("enough: %t, want %t", got, enough)
	}

	printed := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")

	for _, line := range lines {
		if !strings.Contains(printed, line) {
			t.Errorf("%q is not in the table:\n%s", line, printed)
		}
	}
}

func TestSuites(t *testing.T) {
	t.Parallel()

	good, bad := suite{name: "good", pkg: "./good", want: 3}, suite{name: "bad", pkg: "./bad"}

	t.Run("every kind", func(t *testing.T) {
		t.Parallel()
		check(t, t.Context(), []suite{good}, "", true,
			" pass TestPasses", " fail TestFails", " skip TestSkips", " fail TestPanics", " pass TestZAfter",
			"good 6 live tests: 3 passed (wanted: 3), 2 failed, 1 skipped")
	})

	t.Run("too few, and one that does not compile", func(t *testing.T) {
		t.Parallel()

		strict := good
		strict.want = 4
		check(t, t.Context(), []suite{bad, strict}, "", false,
			"run tests of bad: exit status 1", "bad_test.go:3", " pass TestPasses",
			"bad 0 live tests: 0 passed (wanted: 0), 0 failed, 0 skipped",
			"good 6 live tests: 3 passed (wanted: 4), 2 failed, 1 skipped")
	})

	t.Run("some", func(t *testing.T) {
		t.Parallel()
		check(t, t.Context(), []suite{good}, "Passes|Fails", false,
			"good 2 live tests: 1 passed (wanted: 2), 1 failed, 0 skipped")
	})

	t.Run("time is up", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Nanosecond, errors.New("the time is up"))
		defer cancel()
		check(t, ctx, []suite{good}, "", false, "run tests of good: the time is up", "good 0 live tests")
	})

	t.Run("a test that hangs", func(t *testing.T) {
		t.Parallel()

		results, err := good.goTest(t.Context(), module(t), []string{"HANG=1"}, "-timeout", "5s", "-run", "Passes|Hangs")
		if err != nil {
			t.Fatal(err)
		}

		if results["TestPasses"].action != "pass" || results["TestZHangs"].action != "" {
			t.Errorf("%+v", results)
		}
	})
}

func TestTimeLeft(t *testing.T) {
	t.Parallel()

	for in, most := range map[time.Duration]time.Duration{time.Hour: time.Hour - 2*drain, time.Second: time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), in)
		if left := timeLeft(ctx); left > most || left < most/2 {
			t.Errorf("of %s tests get %s", in, left)
		}

		cancel()
	}
}

func TestTakenPortIsExplained(t *testing.T) {
	t.Parallel()

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = taken.Close() }()

	srv, err := sbemu.New(sbemu.Config{Address: taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}

	err = explain(srv.Start())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "5672 of 127.0.0.2 and 127.0.0.3 are needed: stop what listens there") {
		t.Error(err)
	}
}
