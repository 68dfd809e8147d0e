// Package statuspage serves the status page of a service on its admin port: /status/ is a
// page for people, /status/data the same for programs.
//
//	registry ──▶ Recorder, every 2 s ──▶ a ring of 5 minutes for each figure ─┐
//	                                                                          ├─▶ /status/data ──▶ page
//	tables (state database, this process), at most every 2 s, on request ─────┘
//
// The page is read-only. It is embedded, asks no other host for anything, and works
// behind a proxy that adds a path prefix, because all its addresses are relative. The
// recorder reads what /metrics reads and asks no server, so a page that nobody looks at
// costs one gathering of the registry every two seconds. The tables are read only while
// somebody looks, and all viewers of a process share one reading.
package statuspage
