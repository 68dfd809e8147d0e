package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

// ownPrefix is the prefix of the settings of both services.
const ownPrefix = "PENSTOCK_"

// serviceVariable matches the variables that Kubernetes sets for each Service of the
// namespace. The names of Penstock's own Services often begin with penstock-.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// misspelling is a variable that no command reads, and the similar one that is probably
// meant.
type misspelling struct{ variable, meant string }

// misspelt returns the variables of environ (in the form of [os.Environ]) that are probably
// misspelt settings. Both services can share an environment, so a variable counts only if
// it is similar to one of the known ones: a variable of the other service is not.
func misspelt(environ, known []string) []misspelling {
	var found []misspelling
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || !strings.HasPrefix(name, ownPrefix) || slices.Contains(known, name) || serviceVariable.MatchString(name) {
			continue
		}
		// Short names are similar by chance.
		if meant := similar.Within(min(2, (len(name)-len(ownPrefix))/4), name, known); meant != "" {
			found = append(found, misspelling{name, meant})
		}
	}
	slices.SortFunc(found, func(a, b misspelling) int { return strings.Compare(a.variable, b.variable) })
	return found
}
