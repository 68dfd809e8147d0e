// Package statuspage serves the status page of a service on its admin port: /status/ is the
// page for people, /status/data has the same data for programs.
//
//	registry ──▶ Recorder, every 2 s ──▶ a ring of 5 minutes for each figure ─┐
//	                                                                          ├─▶ /status/data ──▶ page
//	tables (state database, this process), at most every 2 s, on request ─────┘
//
// The page is read-only. It is embedded and requests nothing from other hosts. All its
// addresses are relative, so it works behind a proxy that adds a path prefix. The recorder
// reads the same metrics as /metrics and asks no server, so a page without viewers costs
// one gathering of the registry every two seconds. The tables are read only while somebody
// views the page, and all viewers of a process share one reading.
package statuspage
