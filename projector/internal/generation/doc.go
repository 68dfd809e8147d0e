// Package generation keeps the catalog of projections: which definition each of them has
// live, which one is being built, and what it had before. It also keeps the registry of
// the pods, and decides what a pod does when its declarations and the catalog differ.
//
// # Generations
//
// The definitions of a projection that come into force are numbered 1, 2, 3 and so on.
// A number is never given twice, also not after a build that failed or was cancelled.
// Documents, side watermarks and markers carry the number, so the data of two
// generations never mix.
//
//	                  declared anew            proven by package rebuild
//	(no entry) ──────────────────▶ building ───────────────────────────▶ live
//	     │                          │    ▲                                │  │
//	     │ nothing to build from,   │    │ declared with another          │  │ no alive pod
//	     │ or known from before     │    │ definition: rebuild            │  │ declares it
//	     └────────────────────────────────────────────────────────▶ live ─┘  ▼
//	                                │                                      retired
//	          another definition, or ▼                                       │ drop
//	          a cancellation     garbage                                     ▼
//	                                                                     (no entry)
//
// A projection can have a live and a building generation at the same time; while it is
// built for the first time, it has no live one.
//
// # Decisions
//
// [Decide] is pure. Every pod calls it again and again with the same catalog and
// registry, and writes what it gives by compare-and-swap on the entry's revision. So it
// does not matter which pod is first, and no pod has to be special. A definition that
// the projection has had before wins only if no alive pod declares the present one: a
// pod with an old file that restarts during a rollout changes nothing, and a rollback
// rebuilds back as soon as the last new pod is gone.
//
// A build that an operator has cancelled ([GiveUp]) is not repeated by the pods that declare
// its definition. The entry names the definition until any definition is built.
//
// # Registry and trust
//
// A pod registers before it reads the catalog, and renews its registration every few
// seconds under a lease that the server's clock measures. If renewing fails, the pod
// stops trusting its own view ([Registry.Trusted]) before the others stop counting it:
// it settles nothing on a view that may be old.
package generation
