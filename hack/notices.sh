#!/usr/bin/env bash
# Prints the licences and notices of the Go standard library and of the modules that are
# linked into the given binaries. Modules with the same text share it. A module without a
# licence file is an error.
#
#   hack/notices.sh BINARY…
set -euo pipefail
cache=$(go env GOMODCACHE)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
add() { # name, file
	local sum
	sum=$(git hash-object --no-filters "$2")
	[ -e "$work/$sum" ] || echo "$sum" >>"$work/order"
	cat "$2" >"$work/$sum"
	echo "$1" >>"$work/$sum.names"
}
add "the Go standard library" "$(go env GOROOT)/LICENSE"
# A line with => replaces the module of the line before. Penstock's own modules have the
# version (devel).
go version -m "$@" | awk '
	function show() { if (module && module !~ /@\(devel\)$/) print module; module = "" }
	$1 == "dep" { show(); module = $2 "@" $3 }
	$1 == "=>" { module = $2 "@" $3 }
	END { show() }' | LC_ALL=C sort -u >"$work/modules"
while read -r module; do
	# The cache writes an upper-case letter as ! and the lower-case letter.
	folder=$cache/$(awk '{ while (match($0, /[A-Z]/)) $0 = substr($0, 1, RSTART-1) "!" tolower(substr($0, RSTART, 1)) substr($0, RSTART+1) } 1' <<<"$module")
	found=$(find "$folder" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|notice)[^/]*$' | LC_ALL=C sort || true)
	[ -n "$found" ] || { echo "$module has no licence file in $folder" >&2; exit 1; }
	while read -r file; do add "$module" "$file"; done <<<"$found"
done <"$work/modules"
echo "Penstock's binaries contain the following software under the following terms."
while read -r sum; do
	printf '\n%.0s' 1
	printf '=%.0s' {1..80}
	echo
	cat "$work/$sum.names"
	printf -- '-%.0s' {1..80}
	echo
	cat "$work/$sum"
done <"$work/order"
