package mongoemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
)

// Status describes a server at the control endpoint.
type Status struct {
	URI           string `json:"uri"`
	Connections   int    `json:"connections"`
	Cursors       int    `json:"cursors"`
	ChangeStreams int    `json:"changeStreams"`
	OplogEntries  int    `json:"oplogEntries"`
	PendingFaults int    `json:"pendingFaults"`
}

// Status describes the server's present state.
func (s *Server) Status() Status {
	all, streams := s.OpenCursors()
	s.mu.Lock()
	connections := len(s.conns)
	s.mu.Unlock()
	return Status{
		URI: s.URI(), Connections: connections, Cursors: all, ChangeStreams: streams,
		OplogEntries: s.OplogEntries(), PendingFaults: s.PendingFaults(),
	}
}

// Handler is the control endpoint. It has the server's faults as JSON over HTTP, for tests
// in another process.
//
//	GET    /status               → Status
//	POST   /faults/command       a CommandFault, "block" as a duration like "5ms"
//	POST   /faults/documents     a DocumentFault
//	DELETE /faults               end all faults of commands and documents, and the latency
//	POST   /latency              {"latency": "2ms"}
//	POST   /connections/drop     {"appNames": ["…"]}  → {"count": n}
//	POST   /streams/interrupt    {"code": 11602}      → {"count": n}
//	POST   /cursors/kill                              → {"count": n}
//	POST   /oplog/truncate       {"keep": 1}
//	POST   /oplog/noop
//	POST   /ttl/expire
//
// An empty body means {}. An invalid request is answered with 400 and {"error": "…"}.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { respond(w, s.Status()) })
	mux.HandleFunc("POST /faults/command", order(func(f commandFault) (any, error) {
		c, err := f.command()
		if err == nil {
			s.FailCommands(c)
		}
		return done{}, err
	}))
	mux.HandleFunc("POST /faults/documents", order(func(f DocumentFault) (any, error) { s.FailDocuments(f); return done{}, nil }))
	mux.HandleFunc("DELETE /faults", order(func(done) (any, error) { s.ClearFaults(); return done{}, nil }))
	mux.HandleFunc("POST /latency", order(func(in struct {
		Latency string `json:"latency"`
	}) (any, error) {
		d, err := duration(in.Latency)
		if err == nil {
			s.SetLatency(d)
		}
		return done{}, err
	}))
	mux.HandleFunc("POST /connections/drop", order(func(in struct {
		AppNames []string `json:"appNames"`
	}) (any, error) {
		return counted{s.DropConnections(in.AppNames...)}, nil
	}))
	mux.HandleFunc("POST /streams/interrupt", order(func(in struct {
		Code int32 `json:"code"`
	}) (any, error) {
		return counted{s.InterruptStreams(in.Code)}, nil
	}))
	mux.HandleFunc("POST /cursors/kill", order(func(done) (any, error) { return counted{s.KillCursors()}, nil }))
	mux.HandleFunc("POST /oplog/truncate", order(func(in struct {
		Keep int `json:"keep"`
	}) (any, error) {
		s.TruncateOplog(in.Keep)
		return done{}, nil
	}))
	mux.HandleFunc("POST /oplog/noop", order(func(done) (any, error) { return done{}, s.WriteNoop() }))
	mux.HandleFunc("POST /ttl/expire", order(func(done) (any, error) { return done{}, s.ExpireDocuments() }))
	return mux
}

type done struct{}

type counted struct {
	Count int `json:"count"`
}

// commandFault is the JSON of a CommandFault.
type commandFault struct {
	fault.Command
	Block string `json:"block"`
}

func (f commandFault) command() (fault.Command, error) {
	d, err := duration(f.Block)
	f.Command.Block = d
	return f.Command, err
}

func duration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("read the duration %q: want one like 5ms", s)
	}
	return d, nil
}

// maxOrder bounds the body of a request in bytes.
const maxOrder = 1 << 20

// order answers a request with the result of act for its body.
func order[In any](act func(In) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		d := json.NewDecoder(io.LimitReader(r.Body, maxOrder))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil && !errors.Is(err, io.EOF) {
			refuse(w, fmt.Errorf("read the order: %w", err))
			return
		}
		out, err := act(in)
		if err != nil {
			refuse(w, err)
			return
		}
		respond(w, out)
	}
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
	}{err.Error()})
}
