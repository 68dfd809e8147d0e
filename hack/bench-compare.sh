#!/usr/bin/env bash
# Compares the speed of the services with that of another revision: bench-compare.sh BASE
# BIN ROUNDS. The bench program of this revision measures both, one round each in turn, so
# load on the machine slows both alike. benchstat reports which differences exceed the
# noise. The environment variables of bin/bench apply: BENCH, SHORT, LATENCY_FOR.
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
	# Alternate which side runs first.
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
