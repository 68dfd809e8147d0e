#!/usr/bin/env bash
# Runs the end-to-end tests against Azure Service Bus. It creates a resource group with a
# namespace, runs the tests with the backend "external", prints the duration of each
# scenario, and deletes the group, even after an error or Ctrl-C.
#
#	az login
#	hack/azure/run.sh [--dry-run] [--yes] [--sku Standard|Premium] [--location REGION] [-- go test flags]
#
# PENSTOCK_TEST_MONGODB_URI selects the MongoDB replica set; its user needs the right to
# create and drop databases. Without the variable, the stand-in runs on this machine, and
# only Service Bus is real.
#
# A Standard namespace costs about 10 USD a month plus operations, billed by the hour;
# a Premium one costs about 1 USD an hour. The tests take about half an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."

dry='' yes='' sku=Standard location=westeurope
while [ $# -gt 0 ]; do
	case $1 in
	--dry-run) dry=yes ;;
	--yes) yes=yes ;;
	--sku | --location)
		[ $# -gt 1 ] || { echo "$1 needs a value" >&2; exit 2; }
		if [ "$1" = --sku ]; then sku=$2; else location=$2; fi
		shift
		;;
	--)
		shift
		break
		;;
	*)
		sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
	shift
done
case $sku in Standard | Premium) ;; *)
	echo "--sku is \"$sku\": use Standard or Premium (Basic has no topics)" >&2
	exit 2
	;;
esac

# The group and the namespace share this name. The name of a namespace must be unique in
# Azure.
name=penstock-test-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
work=$(mktemp -d)
made='' standin=''

# run runs a command, or prints it in a dry run.
run() {
	if [ -n "$dry" ]; then
		printf 'would run:'
		printf ' %q' "$@"
		printf '\n'
	else
		"$@"
	fi
}

# clean deletes everything that the script created. It runs once, at every exit.
clean() {
	status=$?
	trap - EXIT INT TERM
	if [ -n "$standin" ]; then
		kill "$standin" 2>/dev/null || true
		wait "$standin" 2>/dev/null || true
	fi
	rm -rf "$work"
	if [ -n "$made" ]; then
		echo "deleting the resource group $name (some minutes)"
		if ! run az group delete --name "$name" --yes; then
			echo "NOT DELETED, delete it yourself: az group delete --name $name --yes" >&2
			status=1
		fi
	fi
	exit "$status"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -z "$dry" ]; then
	for program in az go; do
		command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
	done
	subscription=$(az account show --query name --output tsv) || { echo "log in first: az login" >&2; exit 1; }
	echo "This makes a $sku namespace of Service Bus in $location, in the subscription $subscription, and deletes it at the end."
	if [ -z "$yes" ]; then
		read -r -p "Go on? [y/N] " answer
		[ "$answer" = y ] || exit 1
	fi
fi

# From here on the group may exist, even if the command that creates it fails.
made=yes
run az group create --name "$name" --location "$location" --tags purpose=penstock-test --output none
capacity=()
if [ "$sku" = Premium ]; then capacity=(--capacity 1 --premium-messaging-partitions 1); fi
run az servicebus namespace create --resource-group "$name" --name "$name" --location "$location" --sku "$sku" "${capacity[@]}" --output none
keys=(az servicebus namespace authorization-rule keys list --resource-group "$name" --namespace-name "$name"
	--name RootManageSharedAccessKey --query primaryConnectionString --output tsv)
if [ -n "$dry" ]; then
	run "${keys[@]}"
	PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING=''
else
	PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING=$("${keys[@]}")
fi

if [ -z "${PENSTOCK_TEST_MONGODB_URI:-}" ]; then
	echo "PENSTOCK_TEST_MONGODB_URI is not set: the stand-in for MongoDB runs on this machine"
	run go build -o "$work/mongoemu" ./integration/mongoemu/cmd/mongoemu
	if [ -z "$dry" ]; then
		"$work/mongoemu" --address=127.0.0.1:0 >"$work/uri" &
		standin=$!
		until [ -s "$work/uri" ]; do
			kill -0 "$standin" || { echo "the stand-in for MongoDB has ended" >&2; exit 1; }
			sleep 0.2
		done
		PENSTOCK_TEST_MONGODB_URI=$(head -n 1 "$work/uri")
	fi
fi
export PENSTOCK_TEST_MONGODB_URI PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING PENSTOCK_TEST_BACKEND=external

begun=$SECONDS failed=0
run go test -count 1 -parallel 4 -timeout 90m -v "$@" ./integration/e2e >"$work/log" || failed=$?
if [ -n "$dry" ]; then
	cat "$work/log"
	exit 0
fi

# Results: each scenario with its outcome and seconds.
echo
echo "| scenario | outcome | seconds |"
echo "|---|---|---|"
sed -nE 's/^ *--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)$/| \2 | \1 | \3 |/p' "$work/log"
echo
echo "Service Bus $sku in $location; all scenarios took $((SECONDS - begun)) s"
if [ "$failed" != 0 ]; then
	cp "$work/log" "${TMPDIR:-/tmp}/$name.log"
	echo "the tests failed: see ${TMPDIR:-/tmp}/$name.log" >&2
fi
exit "$failed"
