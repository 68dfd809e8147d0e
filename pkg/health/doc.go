// Package health computes one verdict on a process, and serves /livez, /readyz and /metrics
// on the admin port.
//
//	checks ("can this process do its work?") ──────┐
//	sources of conditions ("must a person look?") ─┼─▶ Verdict ──▶ /readyz, status page,
//	loops ("do they make progress?") ──────────────┘               status command, log, metric
//
// A verdict has a state and the conditions that are its reasons:
//
//	ok         nothing is wrong                            /readyz answers 200
//	degraded   the process works, but a person must look   /readyz answers 200, with the reasons
//	not ready  this process cannot do its work             /readyz answers 503
//
// Kubernetes acts on "not ready": it stops a rollout, and sends no request to the pod. So a
// condition has that state only if another pod, or this pod later, could do better: wrong
// rights, no connection to the store, a start that has not finished. A fault that all pods
// share after they have worked, such as an unreachable broker, is degraded. Unready pods
// would not mend it, and would block rollouts and evictions. docs/operations.md lists the
// conditions. Each process renews its verdict in the state database ([Reports]), where the
// commands status read it.
package health
