#!/usr/bin/env bash
# Runs every fuzz target of the given folders for that long. The input of a failure is
# written to testdata/fuzz, where it becomes a test.
#
#   hack/fuzz.sh TIME FOLDER…
set -euo pipefail
time=$1
shift
grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' "$@" | sort -u | while IFS=: read -r file target; do
	target=${target#func }
	echo "fuzz $file $target"
	if out=$(CGO_ENABLED=0 go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" 2>&1 </dev/null); then
		continue
	fi
	echo "$out"
	# On a busy machine, go test can report the end of the time as a failure of the target:
	# https://go.dev/issue/75804. A real failure writes an input.
	if grep -q "Failing input written" <<<"$out" || ! grep -q "context deadline exceeded" <<<"$out"; then exit 1; fi
done
