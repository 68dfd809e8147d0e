package harness

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Environment variables of [LoadExternal].
const (
	mongoVariable       = "PENSTOCK_TEST_MONGODB_URI"
	busVariable         = "PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING"
	adminVariable       = "PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT"
	connectionsVariable = "PENSTOCK_TEST_SERVICEBUS_MAX_CONNECTIONS"
	prefixVariable      = "PENSTOCK_TEST_PREFIX"
)

// defaultPrefix is the prefix of the names of topics and databases.
const defaultPrefix = "penstock-test"

// ExternalOptions are the addresses and limits of running servers.
type ExternalOptions struct {
	// MongoURI is the connection string of a replica set, whose user may create and drop
	// databases.
	MongoURI string
	// ConnectionString is the one of a Service Bus namespace, with the claim Manage,
	// because every pipeline gets a topic of its own.
	ConnectionString string
	// AdminEndpoint is the URL of the namespace's administration API. Empty means HTTPS on
	// the connection string's host. That is where Azure serves it, and the only place where
	// the SDK (v1.11) looks for it.
	AdminEndpoint string
	// MaxConnections bounds the AMQP connections that may be open at the same time; 0 means
	// no bound.
	MaxConnections int
	// Prefix begins the names of topics and databases; empty means penstock-test.
	Prefix string
	// CleanTimeout bounds how long a backend takes to remove what it made; 0 means a minute.
	CleanTimeout time.Duration
}

// LoadExternal reads options from the environment. Its error names every mistake.
func LoadExternal(getenv func(string) string) (ExternalOptions, error) {
	o := ExternalOptions{
		MongoURI: getenv(mongoVariable), ConnectionString: getenv(busVariable), AdminEndpoint: getenv(adminVariable),
		Prefix: cmp.Or(getenv(prefixVariable), defaultPrefix),
	}
	problems := o.problems()
	if text := getenv(connectionsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			problems = append(problems, fmt.Errorf("%s is %q: use a positive number, or leave it unset for no bound", connectionsVariable, text))
		}
		o.MaxConnections = n
	}
	if len(problems) > 0 {
		return ExternalOptions{}, fmt.Errorf("configure the backend %q: %w", KindExternal, errors.Join(problems...))
	}
	return o, nil
}

func (o ExternalOptions) problems() []error {
	var problems []error
	if o.MongoURI == "" {
		problems = append(problems, fmt.Errorf("%s is not set: set it to the connection string of a replica set", mongoVariable))
	}
	connection := strings.ToLower(o.ConnectionString)
	switch _, err := azservicebus.NewClientFromConnectionString(o.ConnectionString, nil); {
	case o.ConnectionString == "":
		problems = append(problems, fmt.Errorf("%s is not set: set it to that of a Service Bus namespace with the claim Manage", busVariable))
	case err != nil:
		problems = append(problems, fmt.Errorf("%s is not a connection string: %w", busVariable, err))
	case strings.Contains(connection, "entitypath="):
		problems = append(problems, fmt.Errorf("%s is of one entity: use one of the whole namespace, every test has a topic of its own", busVariable))
	case strings.Contains(connection, "usedevelopmentemulator=true") && o.AdminEndpoint == "":
		problems = append(problems, fmt.Errorf("%s is an emulator's: set %s too, such as http://localhost:5300", busVariable, adminVariable))
	}
	if endpoint, err := url.Parse(o.AdminEndpoint); o.AdminEndpoint != "" &&
		(err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https") {
		problems = append(problems, fmt.Errorf("%s is %q: use a URL such as http://localhost:5300", adminVariable, o.AdminEndpoint))
	}
	if !validPrefix.MatchString(o.Prefix) {
		problems = append(problems, fmt.Errorf("%s is %q: use up to 30 lower-case letters, digits and hyphens", prefixVariable, o.Prefix))
	}
	return problems
}

// validPrefix limits the prefix, so that database names stay within 63 bytes.
var validPrefix = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,29}$`)
