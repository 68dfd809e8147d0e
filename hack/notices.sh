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
	sum=$(sha256sum <"$2" | cut -d' ' -f1)
	[ -e "$work/$sum" ] || echo "$sum" >>"$work/order"
	cp --no-preserve=mode "$2" "$work/$sum"
	echo "$1" >>"$work/$sum.names"
}
add "the Go standard library" "$(go env GOROOT)/LICENSE"
go version -m "$@" | awk '$1 == "dep" && $3 != "(devel)" { print $2 "@" $3 }' | LC_ALL=C sort -u >"$work/modules"
while read -r module; do
	# The cache writes an upper-case letter as ! and the lower-case letter.
	folder=$cache/$(sed -E 's/([A-Z])/!\L\1/g' <<<"$module")
	found=$(find "$folder" -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\|notice\)[^/]*' | LC_ALL=C sort)
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
