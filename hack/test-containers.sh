#!/usr/bin/env bash
# Runs the end-to-end tests over containers (make test-containers). Where no Docker engine
# answers, it starts one: root on Linux, in namespaces of its own, so that the engine, its
# bridge and its containers end with this script.
#
# If PENSTOCK_TEST_ACCEPT_EULA or an image is set, the containers are of those images (by
# default of MongoDB's and Microsoft's). Otherwise they are of images with the stand-ins,
# which it builds from static binaries and imports into the engine.
#
#   hack/test-containers.sh FOLDER_FOR_BUILT_FILES [FLAG_OF_GO_TEST…]
set -euo pipefail
cd "$(dirname "$0")/.."
export out=$1
shift

engine() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# has reports whether all of these programs are installed.
has() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || return
	done
}

# build_images builds the file systems of the images.
build_images() {
	export CGO_ENABLED=0
	tools=hack/tools . hack/tools/cached.sh
	out=$(realpath "$out") tools=$(realpath hack/tools) build sh shell mvdan.cc/sh/v3/cmd/gosh
	export GOWORK=
	rm -rf "$out"/{mongo,servicebus,sql}
	mkdir -p "$out"/{mongo,sql}/{bin,tmp} "$out/servicebus/ServiceBus_Emulator/ConfigFiles"
	go build -trimpath -ldflags '-s -w' -o "$out/" ./integration/cmd/imageprograms
	go build -trimpath -ldflags '-s -w' -o "$out/servicebus/" ./integration/sbemu/cmd/sbemu
	cp "$out/sh" "$out/mongo/bin/sh"
	for name in mongo/bin/mongod mongo/bin/mongosh mongo/bin/nc sql/bin/sqlservr; do
		cp "$out/imageprograms" "$out/$name"
	done
	# The emulator's default file has a namespace of this name.
	echo '{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns"}]}}' >"$out/servicebus/ServiceBus_Emulator/ConfigFiles/Config.json"
}

# import_image NAME CHANGE… imports a file system as localhost/penstock/NAME.
import_image() {
	local name=$1 changes=()
	shift
	for change in "$@"; do changes+=(--change "$change"); done
	tar -C "$out/$name" -c . | docker import "${changes[@]}" - "localhost/penstock/$name" >/dev/null
}

# run_tests runs the tests with the engine that answers.
run_tests() {
	if [ -n "${stand_ins-}" ]; then
		import_image mongo 'ENTRYPOINT ["mongod"]' 'EXPOSE 27017'
		import_image sql 'ENTRYPOINT ["sqlservr"]' 'EXPOSE 1433'
		import_image servicebus 'ENTRYPOINT ["/sbemu"]' 'EXPOSE 5672 5300' \
			'ENV SBEMU_AS=emulator SBEMU_ADDRESS=:5672 SBEMU_HTTP_ADDRESS=:5300 SBEMU_CONFIG=/ServiceBus_Emulator/ConfigFiles/Config.json'
		export PENSTOCK_TEST_MONGO_IMAGE=localhost/penstock/mongo PENSTOCK_TEST_SQL_IMAGE=localhost/penstock/sql \
			PENSTOCK_TEST_SERVICEBUS_IMAGE=localhost/penstock/servicebus
		# The reaper of testcontainers-go is an image of its own, which cannot be pulled.
		export TESTCONTAINERS_RYUK_DISABLED=true
		# One for each scenario that runs at the same time.
		export PENSTOCK_TEST_SERVICEBUS_CONTAINERS=${PENSTOCK_TEST_SERVICEBUS_CONTAINERS:-4}
	fi
	PENSTOCK_TEST_BACKEND=containers CGO_ENABLED=0 go test -count 1 -parallel 4 -timeout 60m "$@" ./integration/e2e
}

# inside starts an engine in the namespaces of this process, and runs the tests.
inside() {
	data=$(mktemp -d)
	trap 'kill "$daemon" && wait "$daemon" || true; rm -rf "$data"' EXIT
	ip link set lo up
	dockerd --data-root "$data/data" --exec-root "$data/exec" --pidfile "$data/pid" --host "unix://$data/docker.sock" \
		--storage-driver vfs >"$out/dockerd.log" 2>&1 &
	daemon=$!
	export DOCKER_HOST=unix://$data/docker.sock
	until engine; do
		kill -0 "$daemon" || { tail -5 "$out/dockerd.log" >&2; exit 1; }
	done
	run_tests "$@"
}

if [ -n "${inside-}" ]; then
	inside "$@"
	exit
fi
if ! engine && ! { [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] && has docker dockerd iptables ip unshare; }; then
	echo "make test-containers needs a Docker engine that answers, or root on Linux with docker.io, iptables and iproute2, to start one" >&2
	exit 1
fi
if [ -z "${PENSTOCK_TEST_ACCEPT_EULA-}${PENSTOCK_TEST_MONGO_IMAGE-}${PENSTOCK_TEST_SERVICEBUS_IMAGE-}" ]; then
	export stand_ins=yes
	mkdir -p "$out"
	(build_images)
fi
if engine; then
	run_tests "$@"
else
	# No module can be downloaded in there, so everything is compiled before.
	CGO_ENABLED=0 go build -o /dev/null ./publisher
	CGO_ENABLED=0 go build -o /dev/null ./projector
	CGO_ENABLED=0 go test -run '^$' ./integration/e2e >/dev/null
	inside=yes unshare --net --mount --pid --fork --kill-child --mount-proc "$BASH" "$0" "$out" "$@"
fi
