// Package app composes the projector: it makes the parts from the configuration, and runs
// them.
//
//	topic ──▶ drain.Acceptor ──▶ engine.Engine ──▶ readmodel.Loader, Writer ──▶ MongoDB
//	          sessions, order     pure fold            groups of all sessions
//	                                 │  │
//	                     park.Store ◀┘  └▶ eventstore.Reader
//	                     parked list        gaps, claim checks
//	                                              ▲
//	job.Store ──▶ job.Runner ──▶ history.Workers ─┘──▶ readmodel.Writer
//	jobs, ranges                 build, sweep
//
// Your own program can add projections written in Go to those in YAML, or replace them:
//
//	func main() {
//		users, err := app.NewProjection(app.Declaration{Name: "users", Collection: "users", Apply: app.Typed(apply)})
//		…
//		os.Exit(app.Main(users))
//	}
//
// # Commands
//
// Main runs the service, or the command that the arguments name. The commands are in
// package operate.
//
// # How it ends
//
// When the context of Run ends, the projector accepts no more sessions. It projects and
// settles the received events, and releases its sessions. Only then the writer, the MongoDB
// clients and the admin server end.
package app
