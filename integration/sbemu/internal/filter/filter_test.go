package filter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/filter"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
)

func pointer[T any](v T) *T { return &v }

func view(t *testing.T) *message.View {
	t.Helper()

	b, err := (&amqp.Message{
		Properties: &amqp.MessageProperties{
			MessageID: "m1", CorrelationID: "c1", GroupID: pointer("s1"), Subject: pointer("label"),
			To: pointer("to"), ReplyTo: pointer("reply"), ContentType: pointer("application/json"),
		},
		Annotations: amqp.Annotations{"x-opt-partition-key": "s1"},
		ApplicationProperties: map[string]any{
			"type": "UserRegistered", "n": int64(5), "f": 2.5, "flag": true, "small": int32(7), "Name with space": "x",
			"when": time.UnixMilli(1000), "percent": "50%", "empty": "",
		},
		Value: "v",
	}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}

	m, err := message.Parse(b, func() string { return "" })
	if err != nil {
		t.Fatal(err)
	}

	return message.NewView(m)
}

func TestSQL(t *testing.T) {
	t.Parallel()

	for expression, want := range map[string]bool{
		"1=1":                                   true,
		"1=0":                                   false,
		"type = 'UserRegistered'":               true,
		"TYPE = 'UserRegistered'":               true, // names are not case-sensitive
		"user.type = 'UserRegistered'":          true,
		"type = 'userregistered'":               false,
		"type <> 'x'":                           true,
		"type != 'x'":                           true,
		"missing = 'x'":                         false,
		"missing <> 'x'":                        false, // unknown
		"NOT missing = 'x'":                     false, // unknown
		"missing = 'x' OR n = 5":                true,
		"missing = 'x' AND n = 5":               false,
		"NOT (missing = 'x' AND n = 6)":         true, // unknown AND false is false
		"missing IS NULL":                       true,
		"type IS NULL":                          false,
		"type IS NOT NULL":                      true,
		"EXISTS(type)":                          true,
		"NOT EXISTS(missing)":                   true,
		"exists ( missing )":                    false,
		"EXISTS(sys.CorrelationId)":             true,
		"n = 5":                                 true,
		"n = 5.0":                               true,
		"n = '5'":                               false,
		"small < 8":                             true,
		"n > 4 AND n >= 5 AND n < 6 AND n <= 5": true,
		"f = 2.5":                               true,
		"f > 2":                                 true,
		"flag = TRUE":                           true,
		"NOT flag = TRUE":                       false,
		"(flag) = (TRUE) AND ((n = 5))":         true,
		"[AND] IS NULL AND user.[or] IS NULL":   true,
		"ключ_1 IS NULL":                        true,
		"n + 1 = 6":                             true,
		"n * 2 - 3 = 7":                         true,
		"n / 2 = 2":                             true,
		"n % 2 = 1":                             true,
		"-n = -5":                               true,
		"n / 0 = 1":                             false,
		"type + '!' = 'UserRegistered!'":        true,
		"type IN ('a', 'UserRegistered')":       true,
		"type NOT IN ('a', 'b')":                true,
		"missing IN ('a')":                      false,
		"missing NOT IN ('a')":                  false,
		"n IN (1, 5)":                           true,
		"type LIKE 'User%'":                     true,
		"type LIKE '%Reg%'":                     true,
		"type LIKE 'User_egistered'":            true,
		"type LIKE 'user%'":                     false,
		"type NOT LIKE 'Order%'":                true,
		"percent LIKE '50!%' ESCAPE '!'":        true,
		"type LIKE '50!%' ESCAPE '!'":           false,
		"empty LIKE '%'":                        true,
		"missing LIKE '%'":                      false,
		"sys.MessageId = 'm1'":                  true,
		"sys.messageid = 'm1'":                  true,
		"sys.Label = 'label'":                   true,
		"sys.SessionId = 's1'":                  true,
		"sys.PartitionKey = 's1'":               true,
		"sys.ReplyTo = 'reply'":                 true,
		"sys.ContentType LIKE '%json'":          true,
		"[Name with space] = 'x'":               true,
		`"Name with space" = 'x'`:               true,
		"type = 'it''s'":                        false,
		"n = 5 OR n = 6 AND type = 'x'":         true, // AND binds tighter
		"(n = 5 OR n = 6) AND type = 'x'":       false,
		"when = 1000":                           true,
		"1e3 = 1000 AND 0.5 < 1 AND .5 < 1":     true,
		"missing = missing":                     false,
		"flag > FALSE":                          false,
		"type > 'A' AND type < 'Z'":             true,

		"type <> '" + strings.Repeat("ж", 1014) + "'": true, // the maximum length, in characters
	} {
		f, err := filter.Parse(expression, nil)
		if err != nil {
			t.Errorf("%s: %v", expression, err)

			continue
		}

		if got := f.Match(view(t)); got != want {
			t.Errorf("%s is %t, want %t", expression, got, want)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()

	for _, expression := range []string{
		"", "a =", "= 1", "a = 'x", "a b", "(a = 1", "a = 1)", "a IN ()", "a IN 1", "a LIKE 5", "a LIKE 'x' ESCAPE 'xy'",
		"a NOT 5", "a IS 5", "EXISTS(5)", "newid() = 1", "other.a = 1", "sys.Nonsense = 1", "a = 99999999999999999999", "a = #", "AND", "a = 1 AND", "@p = 1",
		"a = '" + strings.Repeat("x", 1019) + "'",
		// Names begin with a letter, followed by letters, digits and underscores.
		"_a = 1", "a$ = 1", "@_p = 1", "AND = 1", "user.AND = 1", "EXISTS(NOT)", "TRUE.a = 1",
		// A value cannot be used as a condition, nor a condition as a value.
		"a", "NOT a", "NOT (NOT a)", "TRUE", "a AND b = 1", "b = 1 OR a", "(a)", "1", "-(a = 1)", "+(a = 1) = 1", "(a = 1) = TRUE", "a = (b = 1)", "(a = 1) + 1 = 2",
		"2 * (a = 1) = 2", "(a = 1) IN (1)", "1 IN ((a = 1))", "(a = 1) LIKE 'x'", "(a + 1) IS NULL", "1 IS NOT NULL",
	} {
		if _, err := filter.Parse(expression, nil); !errors.Is(err, filter.ErrSyntax) {
			t.Errorf("%q: %v", expression, err)
		}
	}
}

func TestCorrelation(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		filter filter.Correlation
		want   bool
	}{
		{filter.Correlation{}, true},
		{filter.Correlation{System: map[string]string{"CorrelationId": "c1", "Label": "label"}}, true},
		{filter.Correlation{System: map[string]string{"CorrelationId": "c2"}}, false},
		{filter.Correlation{Application: map[string]any{"type": "UserRegistered", "n": int64(5)}}, true},
		{filter.Correlation{Application: map[string]any{"n": int32(5)}}, true},
		{filter.Correlation{Application: map[string]any{"missing": "x"}}, false},
		{filter.Correlation{System: map[string]string{"MessageId": "m1"}, Application: map[string]any{"type": "x"}}, false},
	} {
		if got := c.filter.Match(view(t)); got != c.want {
			t.Errorf("%+v is %t, want %t", c.filter, got, c.want)
		}
	}

	if !filter.Boolean(true).Match(nil) || filter.Boolean(false).Match(nil) {
		t.Error("boolean filters are wrong")
	}
}

func TestParametersAndActions(t *testing.T) {
	t.Parallel()

	f, err := filter.Parse("n = @n AND type = @type AND when <= @when", filter.Parameters{
		"@n": int64(5), "@type": "UserRegistered", "@when": time.UnixMilli(1000),
	})
	if err != nil || !f.Match(view(t)) {
		t.Fatal(err)
	}

	if _, err := filter.Parse("n = @n", nil); !errors.Is(err, filter.ErrSyntax) {
		t.Fatal(err)
	}

	encoded, err := (&amqp.Message{Value: "v", ApplicationProperties: map[string]any{"n": int64(5), "gone": "x"}}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}

	m, err := message.Parse(encoded, func() string { return "id" })
	if err != nil {
		t.Fatal(err)
	}

	a, err := filter.ParseAction("SET N = n + 1; REMOVE gone SET added = @value", filter.Parameters{"@value": "y"})
	if err != nil {
		t.Fatal(err)
	}

	if got := fmt.Sprint(a.Apply(m).ApplicationProperties()); got != "[{N 6} {added y}]" {
		t.Fatal(got)
	}

	if got := fmt.Sprint(m.ApplicationProperties()); !strings.Contains(got, "gone") {
		t.Fatal("the original changed")
	}

	for _, action := range []string{"", "n = 1", "SET n", "SET = 1", "SET sys.Label = 'x'", "REMOVE 5", "SET AND = 1", "SET _n = 1", "SET n = (a = 1)", "SET n = 1 nonsense", strings.Repeat("SET n=1;", 33)} {
		if _, err := filter.ParseAction(action, nil); !errors.Is(err, filter.ErrSyntax) {
			t.Errorf("%q: %v", action, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("type = 'a' AND n IN (1, 2.5) OR NOT sys.Label LIKE 'x%' ESCAPE '!'")
	f.Add("EXISTS([a b]) AND -n * 2 % 3 <> 1e5")

	f.Fuzz(func(_ *testing.T, s string) {
		if e, err := filter.Parse(s, nil); err == nil {
			b, _ := (&amqp.Message{Value: "v", ApplicationProperties: map[string]any{"n": int64(0)}}).MarshalBinary()
			m, _ := message.Parse(b, func() string { return "x" })
			e.Match(message.NewView(m))
		}
	})
}
