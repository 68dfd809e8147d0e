package projection_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// If a few keys of a map change, only those keys are written. If such an update could be
// ambiguous, the whole map is written.
func TestMapIsWrittenByKey(t *testing.T) {
	t.Parallel()
	long := fmt.Sprintf(`"rest":%q`, strings.Repeat("long ", 40))
	for _, test := range []struct{ name, before, after, want string }{
		{"one key", `{"a":1,"b":2,LONG}`, `{"a":1,"b":3,LONG}`, `{"$set":{"m.b":3}}`},
		{"a document in a key", `{"a":{"x":1},LONG}`, `{"a":{"x":2},LONG}`, `{"$set":{"m.a":{"x":2}}}`},
		{"a new key", `{"a":1,LONG}`, `{"a":1,LONG,"b":2}`, `{"$set":{"m.b":2}}`},
		{"a key removed", `{"a":1,"b":2,LONG}`, `{"b":2,LONG}`, `{"$unset":{"m.a":""}}`},
		{"the last key removed", `{LONG,"b":2}`, `{LONG}`, `{"$unset":{"m.b":""}}`},
		{"a key changed, one removed, one new", `{"a":1,"b":2,LONG}`, `{"a":5,LONG,"c":3}`, `{"$set":{"m.a":5,"m.c":3},"$unset":{"m.b":""}}`},
		{"a number as a key", `{"0":1,LONG}`, `{"0":2,LONG}`, `{"$set":{"m.0":2}}`},
		{"an unusable key that stays", `{"a.b":1,"":2,"$c":3,"d":4,LONG}`, `{"a.b":1,"":2,"$c":3,"d":5,LONG}`, `{"$set":{"m.d":5}}`},
		{"another type of the same value", `{"a":1,LONG}`, `{"a":1.0,LONG}`, `{"$set":{"m.a":1.0}}`},

		{"a key with a dot", `{"a.b":1,LONG}`, `{"a.b":2,LONG}`, "whole"},
		{"an empty key", `{"":1,LONG}`, `{"":2,LONG}`, "whole"},
		{"a key that starts with $", `{"$a":1,LONG}`, `{"$a":2,LONG}`, "whole"},
		{"a key with a dot removed", `{"a.b":1,LONG}`, `{LONG}`, "whole"},
		{"two new keys", `{LONG}`, `{LONG,"b":1,"a":2}`, "whole"},
		{"a new key before others", `{"a":1,LONG}`, `{"a":1,"b":2,LONG}`, "whole"},
		{"another order", `{"a":1,"b":2,LONG}`, `{"b":2,"a":1,LONG}`, "whole"},
		{"a key removed and made again", `{"a":1,"b":2,LONG}`, `{"b":2,LONG,"a":1}`, "whole"},
		{"a key twice", `{"a":1,"a":2,LONG}`, `{"a":1,"a":3,LONG}`, "whole"},
		{"more than half of it", `{"a":1,"b":2}`, `{"a":2,"b":3}`, "whole"},
		{"no map before", `[1]`, `{"a":1,LONG}`, "whole"},
		{"no map after", `{"a":1,LONG}`, `[2]`, "whole"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			document := func(m string) projection.State {
				return testkit.FromJSON(`{"m":` + strings.ReplaceAll(m, "LONG", long) + `}`)
			}
			after := document(test.after)
			p := inCode(t, projection.Declaration{
				Name: "p", Collection: "c", Version: "1",
				Apply: func(projection.State, *event.Event) (projection.State, error) { return after, nil },
			})
			f := p.Fold(document(test.before), []*event.Event{projectiontest.Event(1, "A", "")})
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			want := `{"$set":` + projectiontest.JSON(t, after) + `}`
			if test.want != "whole" {
				want = projectiontest.JSON(t, testkit.FromJSON(test.want))
			}
			if got := projectiontest.JSON(t, f.Update); got != want {
				t.Errorf("the update is %s, want %s", got, want)
			}
		})
	}
}
