#!/bin/sh
# Prints the index of the documentation for language models (https://llmstxt.org): each page
# with its title and first sentence. With --full it prints the pages themselves.
set -eu
full=${1:-}
cd "$(dirname "$0")/.."
set -- README.md ARCHITECTURE.md docs/*.md charts/penstock/README.md charts/penstock/RUNBOOK.md
if [ "$full" = --full ]; then
	for page; do printf '<!-- %s -->\n\n' "$page" && cat "$page" && echo; done
	exit
fi
printf '# Penstock\n\n> A MongoDB event store, streamed through Azure Service Bus into MongoDB read models.\n\n## Documentation\n\n'
for page; do
	awk -v page="$page" '
		title == "" && sub(/^# /, "") { title = $0; next }
		title != "" && /^[A-Z`*[]/ { gsub(/\[|\]\([^)]*\)/, ""); sub(/[.:] .*|[.:]$/, ""); text = ": " $0; exit }
		END { printf "- [%s](%s)%s\n", title, page, text }' "$page"
done
