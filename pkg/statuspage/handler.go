package statuspage

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

//go:embed page
var files embed.FS

// Page is the content of a status page.
type Page struct {
	// Service, Instance and Version identify the process, and Pipeline what it reads and
	// writes.
	Service, Instance, Version, Pipeline string
	Recorder                             *Recorder
	// Verdict is shown at the head of the page.
	Verdict func() health.Verdict
	// Tables are read only while somebody views the page.
	Tables []Source
}

// Handler serves the page, and all addresses below the one where it is mounted. It
// redirects a request for that address without its final slash.
func Handler(p Page) http.Handler {
	h := &handler{page: p, started: time.Now()}
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status/data", h.data)
	mux.Handle("GET /status/", http.StripPrefix("/status/", http.FileServerFS(page)))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		// The address is relative, because a proxy may have removed a prefix.
		w.Header().Set("Location", "status/")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

type handler struct {
	page    Page
	started time.Time

	// reading is held while the tables are read, so that viewers share one reading.
	reading sync.Mutex
	tables  []Table
	read    time.Time
}

// view is the JSON of /status/data.
type view struct {
	Service  string    `json:"service"`
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Pipeline string    `json:"pipeline"`
	Now      time.Time `json:"now"`
	Started  time.Time `json:"startedAt"`
	Interval float64   `json:"intervalSeconds"`
	health.Verdict
	Stages []stageView `json:"stages"`
	Tables []Table     `json:"tables"`
}

func (h *handler) data(w http.ResponseWriter, _ *http.Request) {
	v := view{
		Service: h.page.Service, Instance: h.page.Instance, Version: h.page.Version, Pipeline: h.page.Pipeline,
		Now: time.Now().UTC(), Started: h.started.UTC(), Interval: interval.Seconds(),
		Verdict: h.page.Verdict(), Stages: h.page.Recorder.view(), Tables: h.current(),
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a viewer that has disconnected needs no answer
}

// current reads the tables, unless they were read within the last interval. The reading
// does not end with the request of the first viewer, because others may wait for it.
func (h *handler) current() []Table {
	h.reading.Lock()
	defer h.reading.Unlock()
	if time.Since(h.read) < interval && h.tables != nil {
		return h.tables
	}
	ctx, cancel := mongox.Timeout(context.Background(), readTimeout)
	defer cancel()
	tables := make([]Table, len(h.page.Tables))
	for i, source := range h.page.Tables {
		tables[i] = source.read(ctx)
	}
	h.tables, h.read = tables, time.Now()
	return tables
}
