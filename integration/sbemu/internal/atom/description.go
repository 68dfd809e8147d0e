package atom

import (
	"encoding/xml"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// maxTimeSpan is the duration that the service writes for "forever".
const maxTimeSpan = "P10675199DT2H48M5.4775807S"

// description is the description of an entity: elements by name, with their inner XML as
// received.
type description struct {
	kind   *kind
	values map[string]string

	createdAt time.Time
	updatedAt time.Time
}

// kind defines the descriptions of one kind of entity.
type kind struct {
	element  string // such as "QueueDescription"
	name     string // as used in errors
	order    []string
	defaults map[string]string
	fixed    map[string]string // the elements that cannot change, with the error's text
}

var queueKind = &kind{
	element: "QueueDescription",
	name:    "Queue",
	order: []string{
		"LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession", "DefaultMessageTimeToLive",
		"DeadLetteringOnMessageExpiration", "DuplicateDetectionHistoryTimeWindow", "MaxDeliveryCount", "EnableBatchedOperations",
		"SizeInBytes", "MessageCount", "IsAnonymousAccessible", "AuthorizationRules", "Status", "ForwardTo", "UserMetadata",
		"CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails", "AutoDeleteOnIdle", "EnablePartitioning",
		"EntityAvailabilityStatus", "EnableExpress", "ForwardDeadLetteredMessagesTo", "MaxMessageSizeInKilobytes",
	},
	defaults: map[string]string{
		"LockDuration": "PT1M", "MaxSizeInMegabytes": "1024", "RequiresDuplicateDetection": "false", "RequiresSession": "false",
		"DefaultMessageTimeToLive": maxTimeSpan, "DeadLetteringOnMessageExpiration": "false",
		"DuplicateDetectionHistoryTimeWindow": "PT10M", "MaxDeliveryCount": "10", "EnableBatchedOperations": "true",
		"Status": "Active", "SupportOrdering": "true", "AutoDeleteOnIdle": maxTimeSpan, "EnablePartitioning": "false",
		"EnableExpress": "false", "EntityAvailabilityStatus": "Available",
	},
	fixed: map[string]string{
		"RequiresSession":            "The value for the RequiresSession property of an existing Queue cannot be changed.",
		"RequiresDuplicateDetection": "The value for the RequiresDuplicateDetection property of an existing Queue cannot be changed.",
		"EnablePartitioning":         "Partitioning cannot be changed for Queue.",
	},
}

var topicKind = &kind{
	element: "TopicDescription",
	name:    "Topic",
	order: []string{
		"DefaultMessageTimeToLive", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "DuplicateDetectionHistoryTimeWindow",
		"EnableBatchedOperations", "SizeInBytes", "FilteringMessagesBeforePublishing", "IsAnonymousAccessible",
		"AuthorizationRules", "Status", "UserMetadata", "CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails",
		"SubscriptionCount", "AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus", "EnableSubscriptionPartitioning", "EnableExpress",
		"SqlFilterCount", "CorrelationFilterCount", "MaxMessageSizeInKilobytes",
	},
	defaults: map[string]string{
		"DefaultMessageTimeToLive": maxTimeSpan, "MaxSizeInMegabytes": "1024", "RequiresDuplicateDetection": "false",
		"DuplicateDetectionHistoryTimeWindow": "PT10M", "EnableBatchedOperations": "true", "Status": "Active",
		"SupportOrdering": "true", "AutoDeleteOnIdle": maxTimeSpan, "EnablePartitioning": "false", "EnableExpress": "false",
		"EntityAvailabilityStatus": "Available",
	},
	fixed: map[string]string{
		"RequiresDuplicateDetection": "The value for the RequiresDuplicateDetection property of an existing Topic cannot be changed.",
		"EnablePartitioning":         "Partitioning cannot be changed for Topic.",
	},
}

var subscriptionKind = &kind{
	element: "SubscriptionDescription",
	name:    "Subscription",
	order: []string{
		"LockDuration", "RequiresSession", "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration",
		"DeadLetteringOnFilterEvaluationExceptions", "MessageCount", "MaxDeliveryCount", "EnableBatchedOperations", "Status",
		"ForwardTo", "CreatedAt", "UpdatedAt", "AccessedAt", "UserMetadata", "CountDetails", "ForwardDeadLetteredMessagesTo",
		"AutoDeleteOnIdle", "EntityAvailabilityStatus",
	},
	defaults: map[string]string{
		"LockDuration": "PT1M", "RequiresSession": "false", "DefaultMessageTimeToLive": maxTimeSpan,
		"DeadLetteringOnMessageExpiration": "false", "DeadLetteringOnFilterEvaluationExceptions": "true",
		"MaxDeliveryCount": "10", "EnableBatchedOperations": "true", "Status": "Active", "AutoDeleteOnIdle": maxTimeSpan,
		"EntityAvailabilityStatus": "Available",
	},
	fixed: map[string]string{
		"RequiresSession": "The value for the RequiresSession property of an existing Subscription cannot be changed.",
	},
}

// namespaces are the declarations of elements whose content has its own namespace. The
// JavaScript SDK reads the prefix from the declaration.
var namespaces = map[string]string{
	"CountDetails": ` xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus"`,
}

// newDescription returns a description with the defaults of its kind.
func newDescription(k *kind, now time.Time) *description {
	d := &description{kind: k, values: make(map[string]string), createdAt: now, updatedAt: now}
	for name, value := range k.defaults {
		d.values[name] = value
	}

	return d
}

// clone returns a copy. Changes to the copy do not affect the description.
func (d *description) clone() *description {
	out := *d
	out.values = maps.Clone(d.values)

	return &out
}

// element is any XML element.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Inner   string     `xml:",innerxml"`
	Nested  []element  `xml:",any"`
}

// child returns a nested element, or nil.
func (e *element) child(name string) *element {
	if e == nil {
		return nil
	}

	for i := range e.Nested {
		if e.Nested[i].XMLName.Local == name {
			return &e.Nested[i]
		}
	}

	return nil
}

// text returns the element's text.
func (e *element) text() string {
	if e == nil {
		return ""
	}

	var s string
	if err := xml.Unmarshal([]byte("<t>"+e.Inner+"</t>"), &s); err != nil {
		return e.Inner
	}

	return s
}

// content returns the description element in the body of a PUT.
func content(body []byte, name string) (*element, error) {
	var entry element
	if err := xml.Unmarshal(body, &entry); err != nil {
		return nil, fmt.Errorf("parse entry: %w", err)
	}

	e := entry.child("content").child(name)
	if e == nil {
		return nil, fmt.Errorf("%w: the entry has no %s", errRequest, name)
	}

	return e, nil
}

// read takes over the elements that a client put, except measured values (sizes, counts,
// times).
func (d *description) read(e *element) {
	for i := range e.Nested {
		name := e.Nested[i].XMLName.Local
		switch name {
		case "SizeInBytes", "MessageCount", "CountDetails", "CreatedAt", "UpdatedAt", "AccessedAt",
			"SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount", "DefaultRuleDescription":
			continue
		}

		d.values[name] = e.Nested[i].Inner
	}
}

// changed returns the error if e changes an element that is fixed after creation, or "".
func (d *description) changed(e *element) string {
	for name, message := range d.kind.fixed {
		if c := e.child(name); c != nil && strings.TrimSpace(c.Inner) != d.values[name] {
			return message
		}
	}

	return ""
}

// write appends the description's XML: its values and the measured values in readings.
func (d *description) write(b *strings.Builder, readings map[string]string) {
	fmt.Fprintf(b, `<%s xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" `+
		`xmlns:i="http://www.w3.org/2001/XMLSchema-instance">`, d.kind.element)

	for _, name := range d.kind.order {
		value, ok := readings[name]
		if !ok {
			value, ok = d.values[name]
		}

		if ok {
			fmt.Fprintf(b, "<%s%s>%s</%s>", name, namespaces[name], value, name)
		}
	}

	fmt.Fprintf(b, "</%s>", d.kind.element)
}

func (d *description) bool(name string) bool { return d.values[name] == "true" }

func (d *description) int(name string) (int64, error) {
	n, err := strconv.ParseInt(d.values[name], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errRequest, name, err)
	}

	return n, nil
}

// duration returns the duration in the named element, 0 for "forever".
func (d *description) duration(name string) (time.Duration, error) {
	v, err := parseDuration(d.values[name])
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errRequest, name, err)
	}

	return v, nil
}

// escape returns text as XML.
func escape(s string) string { return escaper.Replace(s) }

// escaper does not escape apostrophes, like the service: clients search for its error
// texts in the raw XML.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
