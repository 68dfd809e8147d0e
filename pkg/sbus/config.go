package sbus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

// Config names the Service Bus namespace and the topic of a service. Both services embed
// it; the tags are kong's. The zero value is invalid.
type Config struct {
	ConnectionString     secret.Text `name:"servicebus-connection-string" env:"AZURE_SERVICEBUS_CONNECTION_STRING" placeholder:"STRING" help:"Connection string of the Service Bus namespace; or give the namespace."`
	ConnectionStringFile string      `name:"servicebus-connection-string-file" env:"AZURE_SERVICEBUS_CONNECTION_STRING_FILE" placeholder:"FILE" help:"File with AZURE_SERVICEBUS_CONNECTION_STRING, instead of the variable. If its key changes, the process uses the new one without a restart."`
	Namespace            string      `name:"servicebus-namespace" env:"AZURE_SERVICEBUS_NAMESPACE" url:"" placeholder:"HOST" help:"Service Bus namespace, such as orders.servicebus.windows.net, to use with the workload's Azure identity instead of a connection string."`
	Topic                string      `name:"servicebus-topic" env:"AZURE_SERVICEBUS_TOPIC_NAME" placeholder:"NAME" help:"Topic of the events."`
	Transport            string      `name:"servicebus-transport" env:"PENSTOCK_SERVICEBUS_TRANSPORT" enum:"amqp,websocket" default:"amqp" help:"How Service Bus is reached: by AMQP on port 5671 (amqp), or by AMQP over WebSockets on port 443 (websocket), for networks that block port 5671. WebSockets use the proxy of HTTPS_PROXY."`

	// Dial opens the connections for AMQP; nil means as Transport says. A process in a test
	// has one of its own, so that the test can break and delay its connections.
	Dial func(ctx context.Context) (net.Conn, error) `kong:"-"`
}

// publicCloudSuffix completes a namespace that is given without a domain.
const publicCloudSuffix = ".servicebus.windows.net"

// AfterApply reads the connection string that is in a file. kong calls it.
func (c *Config) AfterApply() error {
	return c.ConnectionString.FromFile("AZURE_SERVICEBUS_CONNECTION_STRING", c.ConnectionStringFile)
}

// Check reports every problem, each with its variable.
func (c Config) Check() error {
	var problems []error
	switch {
	case c.ConnectionString == "" && c.Namespace == "":
		problems = append(problems, errors.New("AZURE_SERVICEBUS_CONNECTION_STRING is not set: set it, or AZURE_SERVICEBUS_NAMESPACE to use the workload's Azure identity"))
	case c.ConnectionString != "" && c.Namespace != "":
		problems = append(problems, errors.New("AZURE_SERVICEBUS_NAMESPACE is set beside AZURE_SERVICEBUS_CONNECTION_STRING: unset one of them"))
	}
	if c.ConnectionString != "" {
		problems = append(problems, c.checkConnectionString()...)
	}
	if strings.ContainsAny(c.Namespace, ":/;=@") || strings.ContainsFunc(c.Namespace, unprintable) {
		problems = append(problems, fmt.Errorf("AZURE_SERVICEBUS_NAMESPACE is %q, which is not a host name: leave out scheme, port and path, as in orders.servicebus.windows.net", c.Namespace))
	}
	if c.Transport == transportWebSocket && isEmulator(string(c.ConnectionString)) {
		problems = append(problems, errors.New("PENSTOCK_SERVICEBUS_TRANSPORT is websocket, which the emulator of UseDevelopmentEmulator does not have: use amqp"))
	}
	if c.Topic == "" {
		problems = append(problems, errors.New("AZURE_SERVICEBUS_TOPIC_NAME is not set: set it to the name of the topic"))
	} else if err := CheckEntity("AZURE_SERVICEBUS_TOPIC_NAME", c.Topic); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// CheckEntity checks the name of a topic or a subscription for characters that no name has.
func CheckEntity(variable, name string) error {
	if strings.ContainsAny(name, "=;@:?#*\\") || strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("%s is %q, which is not the name of an entity of Service Bus: use letters, digits, ., -, _ and /", variable, name)
	}
	return nil
}

// unprintable reports whether a character is white space or a control character.
func unprintable(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func (c Config) checkConnectionString() []error {
	if strings.ContainsFunc(string(c.ConnectionString), unicode.IsControl) {
		return []error{errors.New("AZURE_SERVICEBUS_CONNECTION_STRING has a line break or another control character inside: write one connection string, in one line")}
	}
	// This parses the string, and does not connect.
	if _, err := azservicebus.NewClientFromConnectionString(string(c.ConnectionString), nil); err != nil {
		return []error{fmt.Errorf("AZURE_SERVICEBUS_CONNECTION_STRING is not a connection string (%w): copy it from the namespace's shared access policies", err)}
	}
	if entity := property(string(c.ConnectionString), "EntityPath"); entity != "" && c.Topic != "" && !strings.EqualFold(entity, c.Topic) {
		return []error{fmt.Errorf("AZURE_SERVICEBUS_CONNECTION_STRING is for another entity than the topic %q: use one of the topic or of the whole namespace", c.Topic)}
	}
	return nil
}

// property is a value of a connection string; names are case-insensitive.
func property(connectionString, name string) string {
	for part := range strings.SplitSeq(connectionString, ";") {
		if key, value, ok := strings.Cut(part, "="); ok && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// Host is the namespace's host name, for logs, with its port if it has one;
// empty if c is invalid.
func (c Config) Host() string {
	if c.ConnectionString == "" {
		return c.host()
	}
	endpoint, err := url.Parse(property(string(c.ConnectionString), "Endpoint"))
	if err != nil {
		return ""
	}
	return endpoint.Host
}

func (c Config) host() string {
	if c.Namespace == "" || strings.Contains(c.Namespace, ".") {
		return c.Namespace
	}
	return c.Namespace + publicCloudSuffix
}
