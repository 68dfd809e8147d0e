#!/bin/sh
# Builds both services for people who run their commands without a container: an archive for
# each platform, with the licences. A second build makes the same bytes (GNU tar).
#
#	hack/release/programs.sh VERSION REVISION EPOCH FOLDER [OS/ARCH]...
set -eu
[ $# -ge 4 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$1 revision=$2 epoch=$3
mkdir -p "$4"
out=$(cd "$4" && pwd)
shift 4
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-trimpath GOAMD64=v1 GOARM64=v8.0
stamped=github.com/penstock-cdc/penstock/pkg/cli
for platform; do
	export GOOS="${platform%/*}" GOARCH="${platform#*/}"
	name=penstock-$version-$GOOS-$GOARCH
	mkdir "$work/$name"
	suffix=
	[ "$GOOS" != windows ] || suffix=.exe
	for program in publisher projector; do
		(cd "$program" && go build -buildvcs=false -ldflags "-s -w -X $stamped.release=$version -X $stamped.revision=$revision" -o "$work/$name/$program$suffix" .)
	done
	cp LICENSE "$work/$name/"
	hack/notices.sh "$work/$name/publisher$suffix" "$work/$name/projector$suffix" >"$work/$name/third-party-notices.txt"
	tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$name" | gzip -n >"$out/$name.tar.gz"
	echo "$name.tar.gz"
done
cd "$out" && sha256sum "penstock-$version-"*.tar.gz >"penstock-$version-sha256sums.txt"
