package readable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// ErrUnreadable says that most events cannot be read. The error names the configured
// fields, the fields that the documents have, and the remedy.
var ErrUnreadable = errors.New("most events cannot be read")

const (
	// maxNames and maxName bound how many field names of a document an error shows, and
	// their length.
	maxNames = 20
	maxName  = 64
)

// breakdown counts the reasons of unreadable events.
type breakdown struct {
	counts map[problem]int
	// document is the latest unreadable event.
	document bson.Raw
}

type problem struct {
	reason event.Reason
	field  string
}

func (b *breakdown) add(document bson.Raw, err error) {
	p := problem{reason: event.ReasonMalformed}
	if broken, ok := errors.AsType[*event.ContractError](err); ok {
		p = problem{broken.Reason, broken.Field}
	}
	if b.counts == nil {
		b.counts = make(map[problem]int)
	}
	b.counts[p]++
	b.document = document
}

// explain returns [ErrUnreadable] for that many unreadable events out of all.
func (b *breakdown) explain(fields event.Fields, unreadable, all int, of string) error {
	problems := slices.SortedFunc(maps.Keys(b.counts), func(x, y problem) int {
		return b.counts[y] - b.counts[x]
	})
	var reasons, variables []string
	for _, p := range problems {
		text := string(p.reason)
		if p.field != "" {
			text += " in field " + strconv.Quote(p.field)
		}
		if variable := fields.Variable(p.field); variable != "" {
			text += " (" + variable + ")"
			if !slices.Contains(variables, variable) {
				variables = append(variables, variable)
			}
		}
		reasons = append(reasons, fmt.Sprintf("%s: %d", text, b.counts[p]))
	}
	remedy := "check PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION"
	if len(variables) > 0 {
		remedy = "set " + strings.Join(variables, " and ") + " to the field that the documents have"
	}
	return fmt.Errorf("%w: %d of %d %s; %s; the latest of these documents has the fields %s; %s, or, if the store really holds such events and they should go to the quarantine, set PENSTOCK_UNREADABLE_LIMIT=1",
		ErrUnreadable, unreadable, all, of, strings.Join(reasons, ", "), names(b.document), remedy)
}

// names lists the top-level fields of a document.
func names(document bson.Raw) string {
	elements, err := document.Elements()
	if err != nil {
		return "(malformed BSON)"
	}
	var all []string
	for i, e := range elements {
		if i == maxNames {
			all = append(all, fmt.Sprintf("and %d more", len(elements)-maxNames))
			break
		}
		name := e.Key()
		if len(name) > maxName {
			name = name[:maxName] + "…"
		}
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}
