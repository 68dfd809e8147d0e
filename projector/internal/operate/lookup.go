package operate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// lookup are the flags of "projector init" for a view of MongoDB, which joins two collections of
// read models when somebody reads.
type lookup struct {
	View string `name:"lookup" placeholder:"VIEW" help:"Print the commands for mongosh that create VIEW, a view of MongoDB that joins two collections of read models by $$lookup, instead of writing a file. It needs --from, --join and --by, and connects to nothing."`
	From string `name:"from" placeholder:"COLLECTION" help:"With --lookup: the collection whose documents the view has."`
	Join string `name:"join" placeholder:"COLLECTION" help:"With --lookup: the collection that is joined to them."`
	By   string `name:"by" placeholder:"FIELD" help:"With --lookup: the field of the joined documents that has the _id of a document of --from. It gets an index."`
	As   string `name:"as" placeholder:"FIELD" help:"With --lookup: the field of the view that has the list of the joined documents; by default the name of --join."`
}

func (l *lookup) validate() error {
	given := []struct{ flag, value string }{{"--from", l.From}, {"--join", l.Join}, {"--by", l.By}, {"--as", l.As}}
	var problems []error
	for _, g := range given {
		switch {
		case l.View == "" && g.value != "":
			problems = append(problems, fmt.Errorf("%s belongs to --lookup, the name of the view of MongoDB: give both", g.flag))
		case l.View != "" && g.value == "" && g.flag != "--as":
			problems = append(problems, fmt.Errorf("--lookup needs %s", g.flag))
		case strings.ContainsAny(g.value, "$\x00"):
			problems = append(problems, fmt.Errorf("%s is %q, which has a $ or NUL: MongoDB refuses it", g.flag, g.value))
		}
	}
	switch as := cmp.Or(l.As, l.Join); {
	case strings.ContainsAny(l.View, "$\x00") || strings.HasPrefix(l.View, "system."):
		problems = append(problems, fmt.Errorf("--lookup is %q, which is not a name of a collection", l.View))
	case l.View != "" && (l.View == l.From || l.View == l.Join):
		problems = append(problems, fmt.Errorf("--lookup is %s, which is one of the joined collections: give the view a name of its own", l.View))
	case l.View != "" && (as == "_id" || strings.Contains(as, ".")):
		problems = append(problems, fmt.Errorf("the field of the joined documents would be %s: name another one by --as, without a dot", as))
	}
	return errors.Join(problems...)
}

// text returns the commands.
func (l *lookup) text() string {
	as := cmp.Or(l.As, l.Join)
	return fmt.Sprintf(`db.getCollection(%s).createIndex({%s: 1})
db.createView(%s, %s, [
  {$lookup: {from: %s, localField: "_id", foreignField: %s, as: %s}},
  {$set: {%s: {$size: %s}}},
])
`, quoted(l.Join), quoted(l.By), quoted(l.View), quoted(l.From), quoted(l.Join), quoted(l.By), quoted(as), quoted(as+"Count"), quoted("$"+as))
}

// quoted is a literal of mongosh, which is JavaScript.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // A text has no error.
	return strings.TrimSuffix(b.String(), "\n")
}
