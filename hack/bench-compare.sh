#!/usr/bin/env bash
# Compares the speed of the services with that of another revision: bench-compare.sh BASE BIN
# ROUNDS. Both are measured by this revision's programs, in turn, a round each, so that a
# machine that becomes busy slows both alike. benchstat says which differences are more than
# noise. Further settings are those of bin/bench: BENCH, SHORT, LATENCY_FOR.
set -euo pipefail

base=${1:?name a revision: make bench-compare BASE=main}
bin=$2
rounds=$3

commit=$(git rev-parse --verify --quiet "$base^{commit}") || {
	echo "bench-compare: there is no revision $base" >&2
	exit 2
}
work=$(mktemp -d)
cleanup() {
	git worktree remove --force "$work/tree" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

git worktree add --quiet --detach "$work/tree" "$commit"
mkdir "$work/base"
(cd "$work/tree" && CGO_ENABLED=0 go build -o "$work/base/" ./publisher ./projector)

for round in $(seq "$rounds"); do
	# Every second round begins with the other one.
	order="base new"
	[ $((round % 2)) = 1 ] || order="new base"
	for side in $order; do
		from=$bin
		[ "$side" = new ] || from=$work/base
		echo "round $round of $rounds: $side" >&2
		"$bin/bench" --rounds 1 --no-limits --format go --publisher "$from/publisher" --projector "$from/projector" |
			grep -v '^commit:' >>"$work/$side.txt"
	done
done
"$bin/benchstat" "$(git describe --always --exclude '*' "$commit")=$work/base.txt" "working-tree=$work/new.txt"
