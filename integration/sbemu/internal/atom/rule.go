package atom

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/filter"
)

// rule is a rule of a subscription, with its filter and action as received.
type rule struct {
	name      string
	filter    *element
	action    *element // nil: none
	createdAt time.Time
}

const schemaInstance = "http://www.w3.org/2001/XMLSchema-instance"

func defaultRule() *rule {
	return &rule{
		name: "$Default",
		filter: &element{
			XMLName: xml.Name{Local: "Filter"},
			Attrs:   []xml.Attr{{Name: xml.Name{Space: schemaInstance, Local: "type"}, Value: "TrueFilter"}},
			Inner:   "<SqlExpression>1=1</SqlExpression><CompatibilityLevel>20</CompatibilityLevel>",
			Nested:  []element{{XMLName: xml.Name{Local: "SqlExpression"}, Inner: "1=1"}},
		},
		createdAt: time.Now(),
	}
}

// readRule reads a rule from its description.
func readRule(e *element, name string) (*rule, error) {
	if name == "" {
		name = e.child("Name").text()
	}

	if name == "" {
		name = "$Default"
	}

	r := &rule{name: name, filter: e.child("Filter"), action: e.child("Action"), createdAt: time.Now()}

	if r.filter == nil {
		r.filter = defaultRule().filter
	}

	if r.action != nil && typeOf(r.action) == "EmptyRuleAction" {
		r.action = nil
	}

	if _, err := compile([]*rule{r}); err != nil {
		return nil, err
	}

	return r, nil
}

// typeOf returns the i:type of an element.
func typeOf(e *element) string {
	for _, a := range e.Attrs {
		if a.Name.Local == "type" {
			return a.Value
		}
	}

	return ""
}

// compile converts rules to the broker's form. Without rules, no message is selected.
func compile(rules []*rule) ([]broker.Rule, error) {
	out := make([]broker.Rule, 0, len(rules))

	for _, r := range rules {
		compiled, err := r.compile()
		if err != nil {
			return nil, fmt.Errorf("%w: rule '%s': %w", errRequest, r.name, err)
		}

		out = append(out, compiled)
	}

	return out, nil
}

func (r *rule) compile() (broker.Rule, error) {
	out := broker.Rule{Name: r.name}

	switch kind := typeOf(r.filter); kind {
	case "TrueFilter":
		out.Filter = filter.Boolean(true)
	case "FalseFilter":
		out.Filter = filter.Boolean(false)
	case "SqlFilter":
		parameters, err := readParameters(r.filter.child("Parameters"))
		if err != nil {
			return out, err
		}

		sql, err := filter.Parse(r.filter.child("SqlExpression").text(), parameters)
		if err != nil {
			return out, fmt.Errorf("parse filter: %w", err)
		}

		out.Filter = sql
	case "CorrelationFilter":
		correlation, err := readCorrelation(r.filter)
		if err != nil {
			return out, err
		}

		out.Filter = correlation
	default:
		return out, fmt.Errorf("%w: unknown filter '%s'", errRequest, kind)
	}

	if r.action == nil {
		return out, nil
	}

	parameters, err := readParameters(r.action.child("Parameters"))
	if err != nil {
		return out, err
	}

	action, err := filter.ParseAction(r.action.child("SqlExpression").text(), parameters)
	if err != nil {
		return out, fmt.Errorf("parse action: %w", err)
	}

	out.Action = action

	return out, nil
}

func readCorrelation(e *element) (*filter.Correlation, error) {
	f := &filter.Correlation{System: make(map[string]string)}

	for _, name := range []string{"CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ReplyToSessionId", "ContentType"} {
		if c := e.child(name); c != nil {
			f.System[name] = c.text()
		}
	}

	properties, err := readParameters(e.child("Properties"))
	if err != nil {
		return nil, err
	}

	f.Application = properties

	return f, nil
}

// readParameters reads a list of keys with typed values.
func readParameters(list *element) (filter.Parameters, error) {
	if list == nil {
		return nil, nil //nolint:nilnil // without a list there are no parameters
	}

	out := make(filter.Parameters)

	for i := range list.Nested {
		pair := &list.Nested[i]
		value := pair.child("Value")
		name, text := pair.child("Key").text(), value.text()

		if value == nil {
			return nil, fmt.Errorf("%w: parameter '%s' has no value", errRequest, name)
		}

		_, kind, _ := strings.Cut(typeOf(value), ":")

		var (
			v   any
			err error
		)

		switch kind {
		case "string":
			v = text
		case "boolean":
			v, err = strconv.ParseBool(text)
		case "int", "long", "short", "byte":
			v, err = strconv.ParseInt(text, 10, 64)
		case "double", "float", "decimal":
			v, err = strconv.ParseFloat(text, 64)
		case "dateTime":
			v, err = time.Parse(time.RFC3339Nano, text)
		default:
			err = fmt.Errorf("%w: unknown type '%s'", errRequest, kind)
		}

		if err != nil {
			return nil, fmt.Errorf("%w: parameter '%s': %w", errRequest, name, err)
		}

		out[name] = v
	}

	return out, nil
}

// rulesOf returns the rules of a subscription. If the subscription was not created
// through this API, its rules cannot be shown, and rulesOf returns the default rule.
func (h *Handler) rulesOf(sub *broker.Subscription) []*rule {
	path := key(sub.Path())
	if _, ok := h.rules[path]; !ok {
		h.rules[path] = []*rule{defaultRule()}
	}

	return h.rules[path]
}

// serveRule serves a rule, or the list of a subscription's rules.
func (h *Handler) serveRule(r *http.Request, topic *broker.Destination, sub *broker.Subscription, t target) (int, string, error) {
	rules := h.rulesOf(sub)

	if t.list != "" {
		from, to := page(r, len(rules))

		var entries []string
		for _, rule := range rules[from:to] {
			entries = append(entries, ruleEntry(r, sub, rule))
		}

		return http.StatusOK, feed(r, "Rules", entries), nil
	}

	at := slices.IndexFunc(rules, func(o *rule) bool { return strings.EqualFold(o.name, t.rule) })
	update := r.Header.Get("If-Match") != ""

	switch {
	case r.Method == http.MethodPut && at >= 0 && !update:
		return 0, "", refuse(http.StatusConflict, "SubCode=40900. Conflict. The rule '%s' exists already.", t.rule)
	case at < 0 && (r.Method != http.MethodPut || update):
		return 0, "", refuse(http.StatusNotFound, "404 Not Found. The rule '%s' could not be found.", t.rule)
	}

	switch r.Method {
	case http.MethodGet:
		return http.StatusOK, ruleEntry(r, sub, rules[at]), nil
	case http.MethodDelete:
		rules = slices.Delete(slices.Clone(rules), at, at+1)

		return http.StatusOK, "", h.setRules(topic, sub, rules)
	case http.MethodPut:
		return h.putRule(r, topic, sub, t, rules, at)
	default:
		return 0, "", refuse(http.StatusMethodNotAllowed, "The method %s is not allowed.", r.Method)
	}
}

func (h *Handler) putRule(r *http.Request, topic *broker.Destination, sub *broker.Subscription, t target, rules []*rule, at int) (int, string, error) {
	body, err := readBody(r)
	if err != nil {
		return 0, "", err
	}

	e, err := content(body, "RuleDescription")
	if err != nil {
		return 0, "", err
	}

	if err := checkName(t.rule, broker.MaxRuleName); err != nil {
		return 0, "", err
	}

	put, err := readRule(e, t.rule)
	if err != nil {
		return 0, "", err
	}

	rules = slices.Clone(rules)
	status := http.StatusCreated

	if at >= 0 {
		status = http.StatusOK
		put.createdAt = rules[at].createdAt
		rules[at] = put
	} else {
		rules = append(rules, put)
	}

	return status, ruleEntry(r, sub, put), h.setRules(topic, sub, rules)
}

func (h *Handler) setRules(topic *broker.Destination, sub *broker.Subscription, rules []*rule) error {
	compiled, err := compile(rules)
	if err != nil {
		return err
	}

	topic.SetRules(sub.Name(), compiled)
	h.rules[key(sub.Path())] = rules

	return nil
}

// ruleEntry returns the entry of a rule, with its filter and action as the client put
// them.
func ruleEntry(r *http.Request, sub *broker.Subscription, rule *rule) string {
	action := `<Action i:type="EmptyRuleAction"/>`
	if rule.action != nil {
		action = write(rule.action)
	}

	return entry(r, sub.Path()+"/Rules/"+rule.name, rule.name, fmt.Sprintf(
		`<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="%s">%s%s`+
			`<CreatedAt>%s</CreatedAt><Name>%s</Name></RuleDescription>`,
		schemaInstance, write(rule.filter), action, timestamp(rule.createdAt), escape(rule.name)))
}

// write returns a filter or action as XML: its type, its content as received, and the
// namespaces that were declared for the content.
func write(e *element) string {
	var namespaces strings.Builder

	for _, a := range e.Attrs {
		if a.Name.Space == "xmlns" && a.Name.Local != "i" {
			fmt.Fprintf(&namespaces, ` xmlns:%s="%s"`, a.Name.Local, escape(a.Value))
		}
	}

	return fmt.Sprintf(`<%s i:type="%s"%s>%s</%s>`, e.XMLName.Local, escape(typeOf(e)), namespaces.String(), e.Inner, e.XMLName.Local)
}

// filterCounts returns how many SQL and correlation filters a topic's
// subscriptions have. The default rule's filter is a SQL filter.
func (h *Handler) filterCounts(topic *broker.Destination) (sql, correlation int) {
	for _, sub := range topic.Subscriptions() {
		for _, r := range h.rulesOf(sub) {
			if typeOf(r.filter) == "CorrelationFilter" {
				correlation++
			} else {
				sql++
			}
		}
	}

	return sql, correlation
}
