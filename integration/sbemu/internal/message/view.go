package message

import (
	"strings"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// View reads the properties of a message for filters. It decodes each requested part
// once.
type View struct {
	m           *Message
	application map[string]any
	system      map[string]any
}

// NewView returns a view of m.
func NewView(m *Message) *View { return &View{m: m} }

// Application returns an application property by its name, which is not case-sensitive.
func (v *View) Application(name string) (any, bool) {
	if v.application == nil {
		v.application = make(map[string]any)

		for _, p := range v.m.ApplicationProperties() {
			if key, ok := wire.Text(p.Key); ok {
				v.application[strings.ToLower(key)] = p.Value
			}
		}
	}

	value, ok := v.application[strings.ToLower(name)]

	return value, ok && value != nil
}

// System returns a property of the message itself by the name that filters give it, such
// as "MessageId". The name is not case-sensitive.
func (v *View) System(name string) (any, bool) {
	if v.system == nil {
		v.readSystem()
	}

	value, ok := v.system[strings.ToLower(name)]

	return value, ok
}

func (v *View) readSystem() {
	v.system = map[string]any{"messageid": v.m.ID}

	if v.m.HasPartitionKey {
		v.system["partitionkey"] = v.m.PartitionKey
	}

	d := wire.NewDecoder(v.m.properties)
	d.Descriptor()
	f := d.List()

	for _, name := range []string{
		"", "userid", "to", "label", "replyto", "correlationid", "contenttype",
		"", "", "", "sessionid", "", "replytosessionid",
	} {
		value := f.Next().Value()
		if text, ok := wire.Text(value); ok && name != "" {
			v.system[name] = text
		}
	}

	if subject, ok := v.system["label"]; ok {
		v.system["subject"] = subject
	}

	if f.Err() != nil {
		v.system = map[string]any{}
	}
}
