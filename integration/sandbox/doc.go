// Package sandbox runs a workload through the whole pipeline in three acts, and then compares
// every read model with an independent fold of the event store. `make demo` runs it.
//
// In the first act the leading publisher is killed halfway. In the second act, while
// events keep coming, the projections file changes and the projectors are replaced one by
// one: each changed projection is rebuilt beside the live one, and a reader of its
// collection counts what it sees. Then a document of each is falsified by hand, and the
// command `projector verify` finds and repairs it. The view shows the rebuilds as the
// projector's commands show them to an operator. In the third act `projector erase` removes a
// person from every copy, and proves it.
//
//	            first act                        second act                              third act
//	starting ──▶ running ──▶ failover ──▶ running ──▶ rebuilding ──▶ verifying ──▶ running ──▶ erasing ──▶ comparing ──▶ done
//	                          (at half)
//
// [Stay] then keeps the pipeline running over the same data, so that a person can add
// projections. It replaces the projectors whenever a folder of projections changes.
package sandbox
