package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// screenshots is the variable that names the folder for TestStatusPages' screenshots.
const screenshots = "PENSTOCK_SCREENSHOTS"

// statusData is the data of a service's status page.
type statusData struct {
	Service string
	State   string
	Stages  []struct {
		Name    string
		Figures []struct {
			Name   string
			Value  *float64
			Series []*float64
			Alarm  bool
		}
	}
	Tables []statusTable
}

type statusTable struct {
	Name, Error string
	Rows        []struct{ Cells []string }
}

// rows returns the rows of a table, each as one line.
func (d statusData) rows(table string) (lines []string) {
	for _, t := range d.Tables {
		if t.Name == table {
			for _, r := range t.Rows {
				lines = append(lines, strings.Join(r.Cells, " "))
			}
		}
	}
	return lines
}

// figure returns the last value of a figure, nil if it has none, and whether it is marked.
func (d statusData) figure(name string) (value *float64, alarm bool) {
	for _, s := range d.Stages {
		for _, f := range s.Figures {
			if f.Name == name {
				return f.Value, f.Alarm
			}
		}
	}
	return nil, false
}

// statusPage reads the data of a process's status page. It is empty if the process does not
// answer.
func (s *scenario) statusPage(p *harness.Process) (d statusData) {
	s.t.Helper()
	status, text := get(s.t, p, "/status/data")
	if status == 0 {
		return d
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// Both services show the stages of the events under load, the problems, and the state that
// all pods share. The pages work in a browser behind a proxy that adds a path prefix.
func TestStatusPages(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	w := shop.New(1500, 11)
	s := newScenario(t, w)
	if s.backend.MaxConnections() > 0 {
		t.Skip("the broker has no connections left with which projectors could count its messages")
	}
	s.start(1, 2)
	s.load(20 * time.Second)
	ctx := t.Context()
	if _, err := s.events.InsertOne(ctx, bson.D{{Key: "_id", Value: "broken"}, {Key: "aggregateId", Value: "broken"}, {Key: "eventType", Value: "T"}}); err != nil {
		t.Fatal(err)
	}

	publisher, projector := s.started[0], s.started[1]
	read := s.statusPage
	// Every figure gets a value during a load, so none names a metric that does not exist.
	s.await("the figures of the publisher", func() bool { return complete(read(publisher)) })
	s.await("the quarantined event on the page", func() bool {
		rows := read(publisher).rows("Quarantined events")
		return len(rows) == 1 && strings.HasPrefix(rows[0], "missing_event_id 1 document ") && strings.HasSuffix(rows[0], "publisher republish --quarantine --reason missing_event_id")
	})
	s.await("the figures of the projector", func() bool { return complete(read(projector)) })
	d := read(projector)
	s.await("a row for each pod and each projection", func() bool {
		d = read(projector)
		pods := d.rows("Pods")
		return len(pods) == 2 && strings.Contains(strings.Join(pods, "\n"), "(this one)") && len(d.rows("Projections")) == len(w.Collections)
	})
	defer func() {
		if t.Failed() {
			t.Logf("the last page read: %+v", d)
		}
	}()
	for _, p := range []*harness.Process{publisher, projector} {
		// On a busy machine, one request of a table or of a check can be late.
		want := map[*harness.Process]string{publisher: "degraded", projector: "ok"}[p] // the quarantine has an event
		s.await("a page of "+p.Name+" that is "+want+", without errors", func() bool {
			d = read(p)
			return len(d.Tables) > 0 && d.State == want && !slices.ContainsFunc(d.Tables, func(table statusTable) bool { return table.Error != "" })
		})
	}

	s.await("the runway of a young oplog without an alarm", func() bool {
		runway, alarm := read(publisher).figure("runway of the oplog")
		return runway != nil && !alarm
	})
	if os.Getenv(screenshots) != "" {
		// The pictures show a runway that grows. It is measured every 30 s.
		s.await("a runway of some seconds", func() bool {
			runway, _ := read(publisher).figure("runway of the oplog")
			return runway != nil && *runway > 1
		})
	}

	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Log("the pages were not opened in a browser, because there is no chromium on this machine")
	} else {
		for _, p := range []*harness.Process{publisher, projector} {
			inBrowser(t, browser, p)
		}
	}
	s.finishLoad()
}

// complete reports whether every figure has had a value.
func complete(d statusData) bool {
	for _, s := range d.Stages {
		for _, f := range s.Figures {
			if !slices.ContainsFunc(f.Series, func(v *float64) bool { return v != nil }) {
				return false
			}
		}
	}
	return len(d.Stages) > 0
}

// inBrowser opens the page of a process behind a path prefix.
func inBrowser(t *testing.T, browser string, p *harness.Process) {
	t.Helper()
	target, err := url.Parse("http://" + p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/ops/shop", httputil.NewSingleHostReverseProxy(target)))
	defer proxy.Close()
	open := func(args ...string) (page, log string) {
		ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
		defer cancel()
		args = append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
			"--enable-logging=stderr", "--user-data-dir=" + t.TempDir(), "--window-size=1400,1000", "--virtual-time-budget=5000",
		}, args...)
		c := exec.CommandContext(ctx, browser, append(args, proxy.URL+"/ops/shop/status")...)
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
		}
		return string(out), stderr.String()
	}
	page, log := open("--dump-dom")
	// Both pages have an instant with its age, and the projector's has its used slots. A table can be late.
	wants := []string{", up ", "<h2>", `<path class="line" d="M`, "&nbsp;ago)</td>"}
	for tries := 0; tries < 3 && !strings.Contains(page, wants[3]); tries++ {
		again, more := open("--dump-dom")
		page, log = again, log+more
	}
	if strings.HasPrefix(p.Name, "projector") {
		wants = append(wants, ` of 128</span>`)
	}
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page of %s has no %q:\n%s", p.Name, want, page)
		}
	}
	for line := range strings.Lines(log) {
		// The browser's own pages write to the console, too.
		if strings.Contains(line, "CONSOLE") && !strings.Contains(line, "source: chrome") {
			t.Errorf("the browser complains about the page of %s: %s", p.Name, line)
		}
	}
	if folder := os.Getenv(screenshots); folder != "" {
		name := filepath.Join(folder, "status-"+strings.TrimRight(p.Name, "-0123456789"))
		open("--screenshot=" + name + ".png")
		open("--screenshot="+name+"-dark.png", "--force-dark-mode")
		open("--screenshot="+name+"-phone.png", "--window-size=390,3000")
	}
}
