#!/usr/bin/env bash
# Compares the chart with the services' variables and metrics, with the runbook's headings
# and with its own documentation.
#
#   charts/verify.sh HELM HELM-DOCS PUBLISHER PROJECTOR    (the four binaries)
set -euo pipefail
helm=$1 helm_docs=$2 publisher=$3 projector=$4
cd "$(dirname "$0")/penstock"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$1:"; sed 's/^/  /'; failed=1; }
# Reports the lines that are only in the first list.
only_in() { # complaint, file, file
	if comm -23 "$2" "$3" | grep . >"$work/only"; then complain "$1" <"$work/only"; fi
}

# Each set of values passes the linter and renders. Without values the chart is refused.
for values in ci/*.yaml; do
	"$helm" lint --strict --quiet . -f "$values"
	"$helm" template shop . --namespace shop -f "$values" >"$work/$(basename "$values")"
done
if "$helm" template shop . >/dev/null 2>&1; then complain "not refused" <<<"an empty set of values"; fi
for values in small production "small gitops"; do
	# shellcheck disable=SC2086
	if ! "$helm" template shop . $(printf -- '-f examples/%s.yaml ' $values) >/dev/null 2>"$work/answer"; then complain "examples: $values" <"$work/answer"; fi
done

# The same values give the same manifests, in an upgrade too: Argo CD and Flux would
# otherwise show a difference that never ends. So no template calls a function whose result
# changes, and none reads the cluster.
for values in ci/*.yaml; do
	"$helm" template shop . --namespace shop -f "$values" --is-upgrade >"$work/again"
	if ! diff "$work/$(basename "$values")" "$work/again" >"$work/diff"; then complain "manifests of $values that change" <"$work/diff"; fi
done
changing='now|ago|date[A-Za-z]*|rand[A-Za-z]+|shuffle|uuidv4|gen[A-Z][A-Za-z]+|derivePassword|htpasswd|bcrypt|getHostByName|env|expandenv|[.$]*Release\.(Revision|IsInstall|IsUpgrade)'
grep -rn '{{' templates | sed -E 's/`[^`]*`//g; s/"[^"]*"//g' >"$work/actions"
if grep -E "\{\{[^}]*[ (|]($changing)([ )|}]|\$)" "$work/actions" >"$work/changing"; then complain "functions whose results change" <"$work/changing"; fi
if grep -rnE '\{\{[^}]*[ (|]lookup ' templates >"$work/lookups"; then complain "templates that read the cluster" <"$work/lookups"; fi

# A value can be null, or missing from the values of an earlier release (helm upgrade
# --reuse-values). If its default is a number, a switch, a name or a map of such values, the
# schema refuses that. If its default is empty, null means the same. A map that Kubernetes
# defines can be null too.
awk '
	/^ *# -- / { documented = 1; next }
	/^ *#/ { next }
	match($0, /^ *[A-Za-z]+:/) {
		depth = (RLENGTH - length($1)) / 2
		if (inside != "" && depth > inside) next
		inside = ""
		key[depth] = $1; sub(/:.*/, "", key[depth])
		path = key[0]; for (i = 1; i <= depth; i++) path = path "." key[i]
		value = $0; sub(/^ *[A-Za-z]+: */, "", value)
		if (value == "") kind = documented ? "object" : "required"
		else kind = value ~ /^(""|[{][}]|\[\]|null)$/ ? "empty" : "required"
		if (kind == "object") inside = depth
		print kind, depth, path
		documented = 0
	}' values.yaml >"$work/values"
if [ "$(wc -l <"$work/values")" -lt 250 ]; then complain "values are not found" <"$work/values"; fi
for depth in 0 1 2 3 4; do
	awk -v depth="$depth" '$1 == "required" && $2 == depth { print $3 }' "$work/values" | sort >"$work/needed"
	"$helm" template shop . -f ci/minimal.yaml --set "$(sed 's/$/=null/' "$work/needed" | paste -sd , -)" >"$work/answer" 2>&1 || true
	awk -F "'" '
		/missing propert/ { at = $2; gsub("/", ".", at); for (i = 4; i <= NF; i += 2) print substr(at "." $i, 2) }' "$work/answer" | sort >"$work/refused"
	only_in "values that can be null without a default" "$work/needed" "$work/refused"
done
nulls() { # kinds: prints the values of these kinds as null
	awk -v kinds="$1" '
		function line(depth, text) { while (depth-- > 0) text = "  " text; print text }
		# Mode hpa needs the request for CPU.
		$1 !~ kinds || $3 == "projector.resources" { next }
		{
			depth = split($3, key, ".")
			for (i = 1; i < depth; i++) {
				if (key[i] == before[i] && !differs) continue
				differs = 1; line(i - 1, key[i] ":"); before[i] = key[i]
			}
			differs = 0
			for (i = depth; i < 9; i++) before[i] = ""
			line(depth - 1, key[depth] ": null")
		}' "$work/values"
}
nulls '^empty$' >"$work/nulls-empty"
nulls '^(empty|object)$' >"$work/nulls-all"
for values in ci/*.yaml; do
	if ! "$helm" template shop . --namespace shop -f "$work/nulls-empty" -f "$values" 2>"$work/diff" >"$work/again" ||
		! diff "$work/$(basename "$values")" "$work/again" >"$work/diff"; then
		complain "$values with null instead of empty values" <"$work/diff"
	fi
	if ! "$helm" template shop . --namespace shop -f "$work/nulls-all" -f "$values" >"$work/again" 2>&1; then
		complain "$values without the maps of Kubernetes" <"$work/again"
	fi
done

# Null in place of a value that is set: every optional value has a default, and without the
# needed ones too, the chart says what is missing.
needed='existingSecret|(serviceBus|projector)[.](topic|subscription|projections[.]files)|tracing[.]endpoint|query[.]from|metrics[.]from'
cp "$work/values" "$work/all" && grep -vE "$needed" "$work/all" >"$work/values"
nulls '^empty$' >"$work/nulls-optional"
mv "$work/all" "$work/values"
if ! "$helm" template shop . -f ci/everything.yaml -f "$work/nulls-optional" >"$work/again" 2>"$work/answer" || grep -nE '<nil>|<no value>|%!' "$work/again" >>"$work/answer"; then
	complain "ci/everything.yaml with null for every optional value" <"$work/answer"
fi
if "$helm" template shop . -f ci/everything.yaml -f "$work/nulls-empty" >/dev/null 2>"$work/answer" || ! grep -q 'cannot be installed with these values' "$work/answer"; then
	complain "ci/everything.yaml with null for every empty value is not refused by a sentence" <"$work/answer"
fi

# An autoscaler owns the number of projectors: a replicas field would reset it at every sync.
for values in ci/*.yaml; do
	"$helm" template shop . --namespace shop -f "$values" -s templates/projector/deployment.yaml >"$work/deployment" 2>/dev/null || continue
	if grep -qE '^kind: (HorizontalPodAutoscaler|ScaledObject)$' "$work/$(basename "$values")"; then owner=autoscaler; else owner=chart; fi
	if grep -q '^  replicas:' "$work/deployment"; then sets=chart; else sets=autoscaler; fi
	if [ "$owner" != "$sets" ]; then complain "replicas of the projector" <<<"$values: the $owner owns the field, and the $sets sets it"; fi
done

# If the projections exceed the limit of a pod's annotations, the chart refuses them before
# the API server does.
head -c 200001 /dev/zero | tr '\0' '#' >"$work/large"
if "$helm" template shop . -f ci/minimal.yaml --set-file "projector.projections.files.large\.yaml=$work/large" >"$work/answer" 2>&1 ||
	! grep -q 'the annotations of a pod take 256 KiB' "$work/answer"; then
	complain "not refused" <<<"projections of more than 200,000 bytes"
fi

# Two releases have no object, checkpoint, lock, dashboard or alert label in common. They
# may share the namespace or the name of the release, and always share the cluster, MongoDB,
# Prometheus and Grafana.
names() { # release, namespace, values…: prints the names of one release
	local release=$1 namespace=$2 variables=PENSTOCK_STREAM
	shift 2
	# A Lease in the release's namespace is compared as an object.
	case $* in *election.kind* | *lease.namespace*) variables='PENSTOCK_(STREAM|LEASE_NAME)' ;; esac
	"$helm" template "$release" . --namespace "$namespace" -f ci/minimal.yaml --set metrics.dashboards.enabled=true "$@" | awk -v variables="name: $variables\$" '
		function object() { if (kind != "" && kind != "Pod") print kind, namespace, name; kind = name = namespace = "" }
		/^---/ { object() }
		/^kind: / { kind = $2 }
		$0 ~ variables { variable = $3; getline; print variable, $2; next }
		/^  name: / && name == "" { name = $2 }
		/^  namespace: / && namespace == "" { namespace = $2 }
		/^ *"uid": "penstock-/ { print "uid", $2 }
		/^  penstock-.*[.]json: / { print "file", $1 }
		END { object() }' | tr -d '",' | sort -u
}
in_common() { # what, then two releases with their namespaces, then values
	local what=$1 first=$2 second=$3
	shift 3
	# shellcheck disable=SC2086
	names $first "$@" >"$work/first"
	# shellcheck disable=SC2086
	names $second "$@" >"$work/second"
	if [ "$(wc -l <"$work/first")" -lt 10 ]; then complain "names are not found" <"$work/first"; fi
	if comm -12 "$work/first" "$work/second" | grep . >"$work/both"; then complain "names that $what share" <"$work/both"; fi
}
for elsewhere in "" publisher.lease.namespace=shared,metrics.dashboards.namespace=shared; do
	in_common "two releases of a namespace" "orders shop" "users shop" --set "$elsewhere"
	in_common "two releases of a name" "shop orders" "shop users" --set "$elsewhere"
	in_common "releases whose names join alike" "b a-b" "b-b a" --set "$elsewhere"
done
in_common "two releases that elect in MongoDB" "shop orders" "shop users" --set publisher.election.kind=mongodb
for release in orders users; do
	"$helm" template "$release" . --namespace shop -f ci/identity.yaml -s templates/monitoring/prometheusrule.yaml |
		awk '/^ *- alert:/ { alert = $3 } /^ *release:/ { print alert, $2 }' | sort >"$work/alerts-$release"
done
if comm -12 "$work/alerts-orders" "$work/alerts-users" | grep . >"$work/both"; then complain "alerts that two releases share" <"$work/both"; fi
if [ "$(wc -l <"$work/alerts-orders")" -lt "$(grep -c 'alert: ' templates/_alerts.tpl)" ]; then complain "alerts without their release" <"$work/alerts-orders"; fi

# No map has a key twice. Helm does not detect that, and the API server uses the last one.
"$helm" template shop . -f ci/everything.yaml --set commonLabels.tier=a,publisher.podLabels.tier=b,projector.podLabels.tier=b,metrics.podMonitor.labels.tier=b,metrics.prometheusRule.labels.tier=b,metrics.dashboards.labels.tier=b |
	awk '
		{ match($0, /[^ ]/); indent = RSTART }
		indent != before || /^ *- / || !/^ *[A-Za-z0-9.\/_-]+: / { delete seen }
		/^ *[A-Za-z0-9.\/_-]+: / { if ($1 in seen) print NR ": " $0; seen[$1] = 1 }
		{ before = indent }
	' >"$work/twice"
if [ -s "$work/twice" ]; then complain "keys that stand twice in a map" <"$work/twice"; fi

# The chart sets only variables that the services know, and all of them except those that
# make no sense in a pod. If OpenTelemetry has several variables for one setting, the chart
# sets one.
variables='(PENSTOCK|MONGODB|AZURE|KUBECONFIG|OTEL)[A-Z_]*'
for service in publisher projector; do
	object=statefulset
	if [ "$service" = projector ]; then object=deployment; fi
	for values in ci/*.yaml; do
		"$helm" template shop . -f "$values" -s "templates/$service/$object.yaml" 2>/dev/null || true
	done | grep -oE "name: $variables\$" | sed 's/name: //' | sort -u >"$work/set"
	"${!service}" --help | grep -oE "\\\$$variables" | tr -d '$' | grep -vE '^(KUBECONFIG|OTEL_SDK_DISABLED|OTEL_EXPORTER_OTLP_TRACES_ENDPOINT|OTEL_EXPORTER_OTLP_PROTOCOL)$' | sort -u >"$work/known"
	only_in "variables that the chart sets and $service does not know" "$work/set" "$work/known"
	only_in "variables of $service that no value of ci/*.yaml sets" "$work/known" "$work/set"
done

# A default that a comment in values.yaml names, (null: …), is the service's default.
awk '
	match($0, /^ *# -- .*\(null: /) { fallback = $0; sub(/.*\(null: /, "", fallback); sub(/\).*/, "", fallback); next }
	match($0, /^ *[A-Za-z]+:/) {
		depth = (match($0, /[^ ]/) - 1) / 2
		key[depth] = $1; sub(/:.*/, "", key[depth])
		path = key[0]; for (i = 1; i <= depth; i++) path = path "." key[i]
		if (fallback != "") print path, fallback
		fallback = ""
	}' values.yaml | sort >"$work/claimed"
for service in publisher projector; do
	"${!service}" --help | tr -s ' \n' ' ' | grep -oE 'default [^],]+, \$[A-Z_]+' | sed -E 's/default (.*), \$(.*)/\2 \1/' | sort >"$work/defaults"
	awk -v service="$service" '
		/define "penstock.env./ { mine = index($0, "env.common") || index($0, "env." service) }
		mine && match($0, /\(list "[A-Z_]+" [$.][A-Za-z.]+\)/) {
			split(substr($0, RSTART + 7, RLENGTH - 8), part, "\" ")
			path = part[2]
			sub(/^\$own\./, service ".", path); sub(/^\$mongodb\./, "mongodb.", path)
			sub(/^\$readModels\./, "mongodb.readModels.", path); sub(/^(\$values|\.Values)\./, "", path)
			print part[1], path
		}' templates/_env.tpl | sort | join - "$work/defaults" | cut -d ' ' -f 2-
done | sort -u >"$work/actual"
join -a 2 "$work/actual" "$work/claimed" |
	awk '$2 != $3 { print $1 ": " $NF " in values.yaml, " (NF == 3 ? $2 : "none") " in the service" }' >"$work/drifted"
awk '/\(list "[A-Za-z.]+" \$own[.A-Za-z]*Bytes [0-9]+ / { gsub(/"/, ""); print $3, $4 }' templates/_quantities.tpl | sed -E 's/^\$own\.//' | while read -r path bytes; do
	if ! grep -qE "^(publisher|projector)\.$path $bytes\$" "$work/actual"; then echo "$path: $bytes in _quantities.tpl, and another in the service" >>"$work/drifted"; fi
done
limit=$(awk '$1 == "projector.backlog.limit" { print $2 }' "$work/actual")
if ! grep -q "default $limit .Values.projector.backlog.limit" templates/_validate.tpl; then
	echo "projector.backlog.limit: $limit in the service, and another in _validate.tpl" >>"$work/drifted"
fi
if [ -s "$work/drifted" ]; then complain "defaults that have changed" <"$work/drifted"; fi

# Alerts, dashboards, autoscaling and pages name only metrics that the services' code
# defines, with or without their prefix. The dashboards show all metrics.
for service in publisher projector; do
	grep -rohE --include='*.go' --exclude='*_test.go' --exclude=statuspage.go "\"penstock_${service}_[a-z_]+\"|\\bname\\(\"[a-z_]+\"" "../../$service" |
		sed "s/^name(\"/penstock_${service}_/; s/\"//g"
done | sort -u >"$work/exported"
metrics='penstock_(publisher|projector)_[a-z_]+'
whole() { # replaces the parts of a histogram by its name
	while read -r metric; do
		for part in _bucket _sum _count; do
			if grep -qxF "${metric%"$part"}" "$work/exported"; then metric=${metric%"$part"}; fi
		done
		echo "$metric"
	done | sort -u
}
grep -ohE "$metrics" "$work"/*.yaml RUNBOOK.md README.md templates/NOTES.txt ../../docs/*.md ../../README.md ../../ARCHITECTURE.md | sort -u | whole >"$work/asked"
only_in "metrics that no service has" "$work/asked" "$work/exported"
grep -ohE "$metrics" dashboards/*.json | sort -u | whole >"$work/shown"
only_in "metrics that no dashboard shows" "$work/exported" "$work/shown"

# Alerts, dashboards and autoscaling select and group by labels that the metrics have, with
# values that their help names: docs/metrics.md is made from the code. Prometheus adds the
# labels of the target. A wrong label makes an alert that never fires.
sed -nE 's/^\| `(penstock_[a-z_]+)` \| [a-z]+ \| ([^|]*)\| (.*)\|$/\1|\2|\3/p' ../../docs/metrics.md >"$work/documented"
{
	sed -E 's/\{\{- \$pods -?\}\}//g' templates/_alerts.tpl
	grep -h ' query: ' "$work"/*.yaml
	sed 's/\\"/"/g' dashboards/*.json
} >"$work/queries"
awk -F '|' '
	function wrong(what) { if (!(what in told)) print what; told[what] = 1 }
	FILENAME ~ /documented$/ { labels[$1] = $2; help[$1] = $3; next }
	{
		text = $0
		while (match(text, /(by \([a-z_, ]+\) \(([a-z_]+\()?)?penstock_(publisher|projector)_[a-z_]+[{][^}]*[}]/)) {
			found = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
			match(found, /penstock_[a-z_]+[{]/)
			metric = substr(found, RSTART, RLENGTH - 1); by = substr(found, 1, RSTART - 1); selector = substr(found, RSTART + RLENGTH)
			if (!(metric in labels)) sub(/_(bucket|sum|count)$/, "", metric)
			seen++
			sub(/^by \(/, "", by); sub(/\).*/, "", by)
			n = split(by, groups, /, */)
			for (i = 1; i <= n; i++) if (groups[i] !~ /^(namespace|pod|le)$/ && !index(labels[metric], "`" groups[i] "`")) wrong(metric " by (" groups[i] ")")
			while (match(selector, /[a-z_]+(=~|!~|!=|=)"[^"]*"/)) {
				pair = substr(selector, RSTART, RLENGTH); selector = substr(selector, RSTART + RLENGTH)
				label = pair; sub(/[=!].*/, "", label)
				if (label ~ /^(namespace|pod|cluster)$/) continue
				if (!index(labels[metric], "`" label "`")) wrong(metric "{" pair "}")
				value = pair; sub(/^[^"]*"/, "", value); sub(/"$/, "", value)
				n = split(value, values, "[|]")
				for (i = 1; i <= n; i++) if (!index(help[metric], values[i])) wrong(metric "{" pair "}: no value " values[i])
			}
		}
	}
	END { if (seen < 120) print "only " seen + 0 " selectors were found" }' "$work/documented" "$work/queries" >"$work/labels"
if [ -s "$work/labels" ]; then complain "labels that no metric has" <"$work/labels"; fi

# An alert on a single count also sees a count before the first scrape of its process.
grep -E '^  expr: .*increase\(.*> 0$' templates/_alerts.tpl | grep -v ' unless last_over_time(' >"$work/first" || true
if [ -s "$work/first" ]; then complain "alerts that miss a count before the first scrape" <"$work/first"; fi

# The text of an alert names only labels that its expression keeps.
awk '
	/^- alert:/ { alert = $3 }
	/^  expr:/ { kept = $0 }
	{
		text = $0
		while (match(text, /[$]labels[.][a-z_]+/)) {
			label = substr(text, RSTART + 8, RLENGTH - 8); text = substr(text, RSTART + RLENGTH)
			if (kept !~ "(sum|max|min) by [(]([a-z_]+, )*" label "[,)]") print alert ": $labels." label
		}
	}' templates/_alerts.tpl >"$work/dropped"
if [ -s "$work/dropped" ]; then complain "labels that an alert names and drops" <"$work/dropped"; fi

# The schema knows the names of the alerts that can be left out.
sed -n 's/^- alert: //p' templates/_alerts.tpl | sort >"$work/alerts"
grep -oE '"Penstock(Publisher|Projector)[A-Za-z]+"' values.schema.json | tr -d '"' | sort >"$work/schema"
if ! diff "$work/alerts" "$work/schema" >"$work/diff"; then complain "alerts in metrics.prometheusRule.disabled of values.schema.json" <"$work/diff"; fi

# Each alert has a heading in the runbook, and each heading an alert.
grep -ohE '^- alert: .*' templates/_alerts.tpl | sed 's/- alert: //' | sort >"$work/alerts"
sed -n 's/^## //p' RUNBOOK.md | sort >"$work/headings"
only_in "alerts without a heading in RUNBOOK.md" "$work/alerts" "$work/headings"
only_in "headings of RUNBOOK.md without an alert" "$work/headings" "$work/alerts"

# The README is the output of helm-docs for the values' comments.
"$helm_docs" --log-level error --sort-values-order file --dry-run >"$work/README.md"
if ! diff -u README.md "$work/README.md" >"$work/diff"; then
	complain "README.md is not up to date: run make chart-docs" <"$work/diff"
fi

exit "$failed"
