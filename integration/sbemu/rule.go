package sbemu

import (
	"fmt"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/filter"
)

// Rule selects messages for a subscription, by SQL or by Correlation. A rule without both
// selects all messages.
type Rule struct {
	Name string

	// SQL is an expression such as "aggregateType = 'User' AND epoch > 3". The package
	// documentation lists the supported part of the service's SQL.
	SQL string

	Correlation *Correlation
}

// Correlation selects messages that have all the given values. Empty fields are ignored.
type Correlation struct {
	MessageID        string
	CorrelationID    string
	SessionID        string
	ReplyToSessionID string
	To               string
	ReplyTo          string
	Subject          string
	ContentType      string

	// Properties are application properties: strings, booleans, integers and float64.
	Properties map[string]any
}

// compile converts rules to the broker's form.
func compile(rules []Rule) ([]broker.Rule, error) {
	var out []broker.Rule

	for _, r := range rules {
		compiled := broker.Rule{Name: r.Name, Filter: filter.Boolean(true)}

		switch {
		case r.SQL != "":
			expression, err := filter.Parse(r.SQL, nil)
			if err != nil {
				return nil, fmt.Errorf("rule %q: %w", r.Name, err)
			}

			compiled.Filter = expression
		case r.Correlation != nil:
			compiled.Filter = r.Correlation.compile()
		}

		out = append(out, compiled)
	}

	return out, nil
}

func (c *Correlation) compile() *filter.Correlation {
	f := &filter.Correlation{System: make(map[string]string), Application: make(map[string]any)}

	for name, value := range map[string]string{
		"MessageId": c.MessageID, "CorrelationId": c.CorrelationID, "SessionId": c.SessionID,
		"ReplyToSessionId": c.ReplyToSessionID, "To": c.To, "ReplyTo": c.ReplyTo,
		"Label": c.Subject, "ContentType": c.ContentType,
	} {
		if value != "" {
			f.System[name] = value
		}
	}

	for name, value := range c.Properties {
		if n, ok := value.(int); ok {
			value = int64(n)
		}

		f.Application[name] = value
	}

	return f
}
