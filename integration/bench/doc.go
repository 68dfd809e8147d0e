// Package bench measures the two services as processes over the stand-ins. Each figure is
// shown beside its limit in the same run: the rate of the bare SDK or driver with the same
// events, connections and added latency, but without order, checkpoint, guards or folds.
// The limits run as processes too, so that both sides share the machine in the same way. On
// a machine that is busy with other work, only the ratios are meaningful.
//
//	Run ──▶ round 1…n ──▶ row ──▶ environment (stand-ins, stored events)
//	                        │        ├─ services as processes: rate, CPU, allocations, memory
//	                        │        └─ limits as processes (RunLimit)
//	                        ▼
//	                      Report ──▶ table, Go's benchmark format
//
// Run it with `make bench`; docs/benchmarks.md explains each row.
package bench
