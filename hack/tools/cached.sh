#!/bin/sh
# Functions for the scripts that build tools from the modules beside this file. Each
# script sets `out` to the folder of the results and `tools` to this folder. A result is
# not rebuilt if its versions have not changed. The file <name>.from beside it records
# them.

export GOWORK=off

# build NAME MODULE PACKAGE [LDFLAGS [TAGS]] builds a binary from a package of a tools module.
build() {
	name=$1 module=$2 package=$3 flags=${4-} tags=${5-}
	from="$(cat "$tools/$module/go.mod") -ldflags $flags${tags:+ -tags $tags}"
	if [ -x "$out/$name" ] && [ "$(cat "$out/$name.from" 2>/dev/null)" = "$from" ]; then
		return
	fi
	echo "build $name"
	(cd "$tools/$module" && go build -trimpath -tags "$tags" -ldflags "-s -w $flags" -o "$out/$name" "$package")
	echo "$from" >"$out/$name.from"
}

# collect NAME MODULE PACKAGE FILE... joins YAML files of a module that a tools module
# requires.
collect() {
	name=$1 module=$2 package=$3
	shift 3
	from="$(cat "$tools/$module/go.mod") $*"
	if [ "$(cat "$out/$name.from" 2>/dev/null)" = "$from" ]; then
		return
	fi
	(cd "$tools/$module" && go mod download "$package")
	folder=$(cd "$tools/$module" && go list -m -f '{{.Dir}}' "$package")
	for file in "$@"; do
		echo ---
		cat "$folder/$file.yaml"
	done >"$out/$name"
	echo "$from" >"$out/$name.from"
}
