// Package generation stores the catalog of projections: the live definition of each, the
// one being built, and the earlier ones. It also keeps the registry of the pods, and
// decides what a pod does when its declarations and the catalog differ.
//
// # Generations
//
// The generations of a projection are numbered 1, 2, 3 and so on. A number is never used
// twice, not even after a build that failed or was cancelled. Documents, side watermarks
// and markers contain the number, except those of generation 1. So the data of two
// generations never mix.
//
// If a projection takes over the collection of another one, its number is above every
// number of the former owners. A pod that was suspended in the middle of a write for a
// former owner is then a writer of an older generation. The numbers that were used are
// also recorded in the database of the read models ([Found]), which a pod does before it
// writes a generation. So they survive the loss of the catalog. A projection whose catalog
// entry was lost adopts its read models with the number that they have.
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
// A projection can have a live and a building generation at the same time. During its
// first build it has no live one.
//
// # Definitions
//
// The canonical text of a declaration identifies a definition, and definitions are compared
// by its hash (package projection). The catalog keeps the text. Every pod compiles the live
// definition and the one that is being built from the catalog, whatever its own file says.
//
// # Decisions
//
// [Decide] is a pure function. Every pod calls it regularly with the same catalog and
// registry, and writes the result by compare-and-swap on the entry's revision. So it does
// not matter which pod is first, and no pod needs a special role. A definition that the
// projection has had before replaces the present one only if no alive pod declares the
// present one. So a pod with an old file that restarts during a rollout changes nothing,
// and a rollback rebuilds the old definition as soon as the last new pod is gone.
//
// If an operator cancels a build ([GiveUp]), the pods that declare its definition do not
// start it again. The entry records the definition until another build starts.
//
// # Registry and trust
//
// A pod registers before it reads the catalog, and renews its registration every 5 s. A
// registration lasts 30 s, measured by the server's clock. If renewals fail, the pod
// stops trusting its own view ([Registry.Trusted]) before the other pods consider it
// gone. So it settles no event based on an outdated catalog.
//
// A projection that no alive pod declares for 30 s is retired.
package generation
