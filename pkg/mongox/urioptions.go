package mongox

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

// Treatment is what Penstock does with an option of a connection string.
type Treatment int

// The treatments.
const (
	// honoured: the option has the effect that the driver's documentation gives it.
	honoured Treatment = iota
	// overridden: the option has no effect, and the process logs why.
	overridden
	// refused: the connection string is invalid; the reason says what to use instead.
	refused
)

// verdict is the treatment of one option with one value. An option that is overridden or
// refused has a reason. An honoured one with a reason is logged.
type verdict struct {
	Treatment
	reason string
}

// rule is the rule for one option, with its name as in the documentation.
type rule struct {
	name  string
	judge func(value string) verdict
}

// minPoolSize is the least number of connections with which a process works well. The
// change stream occupies one during its waits. Lease renewals, saves, writes and /readyz
// would queue behind it.
const minPoolSize = 10

// driverOptions are all options that the driver parses, in lower case because their
// names are case-insensitive. A test compares them with the driver's own.
var driverOptions = index([]rule{
	{"appName", override("Penstock sets its own application name")},
	{"authMechanism", func(value string) verdict {
		if strings.EqualFold(value, "GSSAPI") {
			return verdict{refused, "Penstock is built without Kerberos: use SCRAM-SHA-256, MONGODB-X509, MONGODB-AWS or MONGODB-OIDC"}
		}
		return verdict{}
	}},
	{"authMechanismProperties", honour},
	{"authSource", honour},
	{"compressors", honour},
	{"connect", func(value string) verdict {
		if strings.EqualFold(value, "direct") {
			return direct
		}
		return verdict{}
	}},
	{"connectTimeoutMS", unlessZero("0 would wait for ever; 30 s is used")},
	{"directConnection", func(value string) verdict {
		if strings.EqualFold(value, "true") {
			return direct
		}
		return verdict{}
	}},
	{"enableOverloadRetargeting", honour},
	{"heartbeatFrequencyMS", honour},
	{"heartbeatIntervalMS", honour},
	{"journal", func(value string) verdict {
		if value == "true" {
			return verdict{}
		}
		return verdict{overridden, "every write waits for the journals of a majority in any case"}
	}},
	{"loadBalanced", func(value string) verdict {
		if value == "true" {
			return verdict{refused, "Penstock was never tested behind a load balancer: name the servers themselves"}
		}
		return verdict{}
	}},
	{"localThresholdMS", honour},
	{"maxAdaptiveRetries", honour},
	{"maxConnecting", honour},
	{"maxIdleTimeMS", honour},
	{"maxPoolSize", func(value string) verdict {
		if n, err := strconv.Atoi(value); err == nil && n > 0 && n < minPoolSize {
			return verdict{refused, "lease renewals and writes would queue behind the change stream: use at least " + strconv.Itoa(minPoolSize) + ", or leave it out"}
		}
		return verdict{}
	}},
	{"maxStaleness", override("reads go to the primary")},
	{"maxStalenessSeconds", override("reads go to the primary")},
	{"minPoolSize", honour},
	{"readConcernLevel", unless("majority", "a new primary can roll back what a weaker read returns; majority is used")},
	{"readPreference", unless("primary", "reads go to the primary")},
	{"readPreferenceTags", override("reads go to the primary")},
	{"replicaSet", honour},
	{"retryReads", unless("true", "an election must not fail a read; the driver retries it once")},
	{"retryWrites", unless("true", "an election must not fail a write; the driver retries it once")},
	{"serverMonitoringMode", override("the Go driver ignores it in a connection string")},
	{"serverSelectionTimeoutMS", unlessZero("0 would wait for ever; 10 s is used")},
	{"socketTimeoutMS", override("the Go driver ignores it; Penstock bounds every request itself")},
	{"srvMaxHosts", honour},
	{"srvServiceName", honour},
	{"ssl", honour},
	{"sslCertificateAuthorityFile", honour},
	{"sslClientCertificateKeyFile", honour},
	{"sslClientCertificateKeyPassword", honour},
	{"sslInsecure", insecure},
	{"timeoutMS", override("the driver would retry without a pause until the timeout; Penstock bounds every request itself")},
	{"tls", honour},
	{"tlsCAFile", honour},
	{"tlsCertificateFile", honour},
	{"tlsCertificateKeyFile", honour},
	{"tlsCertificateKeyFilePassword", honour},
	{"tlsDisableCertificateRevocationCheck", honour},
	{"tlsDisableOCSPEndpointCheck", honour},
	{"tlsInsecure", insecure},
	{"tlsPrivateKeyFile", honour},
	{"w", unless("majority", "a new primary can roll back a weaker write; majority is used")},
	{"zlibCompressionLevel", honour},
	{"zstdCompressionLevel", honour},
})

// otherOptions are options of other drivers for which a more specific message than
// "ignored" exists.
var otherOptions = index([]rule{
	{"proxyHost", func(string) verdict {
		return verdict{refused, "the Go driver cannot use a SOCKS proxy: route the network instead"}
	}},
	{"wTimeoutMS", override("the Go driver ignores it; Penstock bounds every request itself")},
})

var direct = verdict{honoured, "a direct connection does not follow an election: name the replica set's members and replicaSet instead, unless it has one member only"}

func honour(string) verdict { return verdict{} }

func override(reason string) func(string) verdict {
	return func(string) verdict { return verdict{overridden, reason} }
}

// unless honours one value and overrides any other.
func unless(honoured, reason string) func(string) verdict {
	return func(value string) verdict {
		if strings.EqualFold(value, honoured) {
			return verdict{}
		}
		return verdict{overridden, reason}
	}
}

func unlessZero(reason string) func(string) verdict {
	return func(value string) verdict {
		if n, err := strconv.Atoi(value); err == nil && n == 0 {
			return verdict{overridden, reason}
		}
		return verdict{}
	}
}

func insecure(value string) verdict {
	if value == "true" {
		return verdict{honoured, "the server's certificate is not verified, so anyone on the network path can read and change everything"}
	}
	return verdict{}
}

func index(rules []rule) map[string]rule {
	indexed := make(map[string]rule, len(rules))
	for _, r := range rules {
		indexed[strings.ToLower(r.name)] = r
	}
	return indexed
}

// decided is an option of a connection string that is not honoured without a remark.
type decided struct {
	verdict
	name, value string
}

// decide decides about every option of a connection string, in order. The driver reports
// options that it cannot parse.
func decide(uri string) []decided {
	_, rest, _ := strings.Cut(uri, "://")
	if _, hosts, ok := strings.Cut(rest, "@"); ok {
		rest = hosts
	}
	_, query, _ := strings.Cut(rest, "?")
	var all []decided
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		d := decided{name: name, value: value, verdict: verdict{overridden, "the Go driver does not know this option"}}
		if r, known := driverOptions[strings.ToLower(name)]; known {
			d.name, d.verdict = r.name, r.judge(value)
		} else if r, known := otherOptions[strings.ToLower(name)]; known {
			d.name, d.verdict = r.name, r.judge(value)
		}
		if d.reason != "" {
			all = append(all, d)
		}
	}
	return all
}

// report logs the options of a connection string that have no effect or a risk. Only
// unknown options can hold a secret, so the values of those are left out.
func report(logger zerolog.Logger, uri string) {
	for _, d := range decide(uri) {
		message := "option of the MongoDB connection string is risky"
		if d.Treatment == overridden {
			message = "option of the MongoDB connection string has no effect"
		}
		entry := logger.Warn().Str("option", d.name).Str("reason", d.reason)
		if _, known := driverOptions[strings.ToLower(d.name)]; known {
			entry = entry.Str("value", conceal(d.value, uri))
		}
		entry.Msg(message)
	}
}
