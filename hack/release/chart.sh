#!/bin/sh
# Packages the chart of a release. The chart names its default images by digest, so an
# installation runs exactly the images that were built with the chart.
#
#	hack/release/chart.sh HELM VERSION DIGESTS FOLDER
#
# DIGESTS is a file with the lines that `make images` prints:
#
#	dist/publisher-0.1.0.tar  ghcr.io/penstock-cdc/publisher@sha256:…
set -eu
[ $# = 4 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
helm=$1 version=$2 digests=$3 out=$4
root=$(cd "$(dirname "$0")/../.." && pwd)

digest() {
	found=$(sed -n "s|^.*/$1@\(sha256:[0-9a-f]\{64\}\)\$|\1|p" "$digests")
	[ "$(echo "$found" | grep -c .)" = 1 ] || { echo "$digests has no single digest of the image $1: write the output of make images there" >&2; exit 1; }
	echo "$found"
}
publisher=$(digest publisher)
projector=$(digest projector)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$root/charts/penstock" "$work/penstock"

# Only the first digest below each service is the image's.
awk -v publisher="$publisher" -v projector="$projector" '
	/^[a-z]/ { part = $1; sub(/:.*/, "", part); done = 0 }
	/^    digest: ""$/ && !done && (part == "publisher" || part == "projector") {
		print "    digest: " (part == "publisher" ? publisher : projector); done = 1; next
	}
	{ print }
' "$root/charts/penstock/values.yaml" >"$work/penstock/values.yaml"

mkdir -p "$out"
"$helm" package "$work/penstock" --version "$version" --app-version "$version" --destination "$out"

# Check the package, not the folder that it was made from.
"$helm" template release "$out/penstock-$version.tgz" -f "$root/charts/penstock/ci/minimal.yaml" >"$work/rendered.yaml"
for image in "penstock-cdc/publisher@$publisher" "penstock-cdc/projector@$projector"; do
	grep -q "image: .*$image" "$work/rendered.yaml" || { echo "the packaged chart does not use $image" >&2; exit 1; }
done
