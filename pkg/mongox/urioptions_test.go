package mongox

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
)

// samples have for each option of the driver a value that is not its default, and the
// expected treatment.
var samples = map[string]struct {
	value string
	want  Treatment
}{
	"appName":                              {"shop", overridden},
	"authMechanism":                        {"SCRAM-SHA-256", honoured},
	"authMechanismProperties":              {"ENVIRONMENT:k8s", honoured},
	"authSource":                           {"users", honoured},
	"compressors":                          {"zstd,snappy", honoured},
	"connect":                              {"direct", honoured},
	"connectTimeoutMS":                     {"0", overridden},
	"directConnection":                     {"true", honoured},
	"enableOverloadRetargeting":            {"true", honoured},
	"heartbeatFrequencyMS":                 {"5000", honoured},
	"heartbeatIntervalMS":                  {"5000", honoured},
	"journal":                              {"false", overridden},
	"loadBalanced":                         {"true", refused},
	"localThresholdMS":                     {"20", honoured},
	"maxAdaptiveRetries":                   {"5", honoured},
	"maxConnecting":                        {"4", honoured},
	"maxIdleTimeMS":                        {"60000", honoured},
	"maxPoolSize":                          {"9", refused},
	"maxStaleness":                         {"90", overridden},
	"maxStalenessSeconds":                  {"90", overridden},
	"minPoolSize":                          {"2", honoured},
	"readConcernLevel":                     {"local", overridden},
	"readPreference":                       {"secondary", overridden},
	"readPreferenceTags":                   {"dc:ny", overridden},
	"replicaSet":                           {"rs0", honoured},
	"retryReads":                           {"false", overridden},
	"retryWrites":                          {"false", overridden},
	"serverMonitoringMode":                 {"poll", overridden},
	"serverSelectionTimeoutMS":             {"0", overridden},
	"socketTimeoutMS":                      {"1000", overridden},
	"srvMaxHosts":                          {"2", honoured},
	"srvServiceName":                       {"mongo", honoured},
	"ssl":                                  {"true", honoured},
	"sslCertificateAuthorityFile":          {"ca.pem", honoured},
	"sslClientCertificateKeyFile":          {"client.pem", honoured},
	"sslClientCertificateKeyPassword":      {"s3cret", honoured},
	"sslInsecure":                          {"true", honoured},
	"timeoutMS":                            {"5000", overridden},
	"tls":                                  {"true", honoured},
	"tlsCAFile":                            {"ca.pem", honoured},
	"tlsCertificateFile":                   {"client.crt", honoured},
	"tlsCertificateKeyFile":                {"client.pem", honoured},
	"tlsCertificateKeyFilePassword":        {"s3cret", honoured},
	"tlsDisableCertificateRevocationCheck": {"true", honoured},
	"tlsDisableOCSPEndpointCheck":          {"true", honoured},
	"tlsInsecure":                          {"true", honoured},
	"tlsPrivateKeyFile":                    {"client.key", honoured},
	"w":                                    {"1", overridden},
	"zlibCompressionLevel":                 {"3", honoured},
	"zstdCompressionLevel":                 {"3", honoured},
}

// notOptions are the fields of the driver's ConnString that no option sets.
var notOptions = []string{
	"Original", "Scheme", "Hosts", "RawHosts", "Database", "Username", "UsernameSet", "Password", "PasswordSet",
	"Options", "UnknownOptions",
}

// TestEveryOptionOfTheDriverHasARule fails when a new release of the driver parses an
// option into a field that no option of ours sets.
func TestEveryOptionOfTheDriverHasARule(t *testing.T) {
	t.Parallel()
	left := make(map[string]bool)
	fields := reflect.TypeFor[connstring.ConnString]()
	for i := range fields.NumField() {
		left[fields.Field(i).Name] = !slices.Contains(notOptions, fields.Field(i).Name)
	}
	for name, sample := range samples {
		if _, known := driverOptions[strings.ToLower(name)]; !known {
			t.Errorf("%s is not decided", name)
		}
		// The driver resolves a mongodb+srv host, so only an option that needs the scheme
		// is tested with it, by the driver's own error message.
		parsed, err := connstring.Parse("mongodb://host/?" + name + "=" + sample.value)
		if err != nil {
			if strings.HasPrefix(name, "srv") && strings.Contains(err.Error(), "non-SRV URI") {
				left["SRVMaxHosts"], left["SRVServiceName"] = false, false
				continue
			}
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(parsed.UnknownOptions) > 0 {
			t.Errorf("the driver does not know %s", name)
		}
		value := reflect.ValueOf(*parsed)
		for i := range fields.NumField() {
			if !value.Field(i).IsZero() {
				left[fields.Field(i).Name] = false
				// A value that is the zero value of its type shows in the field next to
				// it.
				left[strings.TrimSuffix(fields.Field(i).Name, "Set")] = false
			}
		}
	}
	// w takes a number or a tag, and each has its own field.
	if parsed, err := connstring.Parse("mongodb://host/?w=tag"); err == nil && parsed.WString == "tag" {
		left["WString"] = false
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if left[name] {
			t.Errorf("no decided option sets the driver's ConnString.%s: decide about a new option in driverOptions and docs/mongodb.md", name)
		}
	}
	if len(samples) != len(driverOptions) {
		t.Errorf("%d options are tried of %d that are decided", len(samples), len(driverOptions))
	}
}

func TestOptionsAreTreatedByTheirRules(t *testing.T) {
	t.Parallel()
	for name, sample := range samples {
		var got Treatment
		// Names of options are case-insensitive.
		for _, d := range decide("mongodb://user:p%3Fw@host/db?" + strings.ToUpper(name) + "=" + sample.value + "&authSource=admin") {
			got = d.Treatment
			if d.name != name {
				t.Errorf("%s is called %s", name, d.name)
			}
		}
		if got != sample.want {
			t.Errorf("%s=%s is treated as %d, want %d", name, sample.value, got, sample.want)
		}
	}
}

// TestGuaranteesHoldForEveryURI checks the options that the driver gets.
func TestGuaranteesHoldForEveryURI(t *testing.T) {
	t.Parallel()
	const hostile = "mongodb://host/?timeoutMS=5000&retryWrites=false&retryReads=false&w=1&journal=false&readConcernLevel=local" +
		"&readPreference=secondary&readPreferenceTags=dc:ny&maxStalenessSeconds=90&connectTimeoutMS=0&serverSelectionTimeoutMS=0" +
		"&socketTimeoutMS=5&serverMonitoringMode=poll&appName=shop&wTimeoutMS=3&misspelt=s3cret"
	var log bytes.Buffer
	o, err := clientOptions(hostile, Options{AppName: "penstock"})
	if err != nil {
		t.Fatal(err)
	}
	report(zerolog.New(&log), hostile)
	switch {
	case o.Timeout != nil:
		t.Errorf("timeout %v reaches the driver, which then retries without a pause", *o.Timeout)
	case !*o.RetryWrites, !*o.RetryReads:
		t.Error("the driver does not retry")
	case !reflect.DeepEqual(o.WriteConcern, writeconcern.Majority()), !reflect.DeepEqual(o.ReadConcern, readconcern.Majority()):
		t.Errorf("writes %+v, reads %+v, not by a majority", o.WriteConcern, o.ReadConcern)
	case !reflect.DeepEqual(o.ReadPreference, readpref.Primary()):
		t.Errorf("reads from %v", o.ReadPreference)
	case o.ConnectTimeout != nil, *o.ServerSelectionTimeout != 10*time.Second:
		t.Errorf("timeouts %v, %v", o.ConnectTimeout, o.ServerSelectionTimeout)
	case o.ServerMonitoringMode != nil:
		t.Error("the driver reads serverMonitoringMode: honour it")
	case *o.AppName != "penstock":
		t.Errorf("called %s", *o.AppName)
	}
	for _, name := range regexp.MustCompile(`[?&](\w+)=`).FindAllStringSubmatch(hostile, -1) {
		if !strings.Contains(log.String(), `"option":"`+name[1]+`"`) {
			t.Errorf("%s is overridden without a word in the log:\n%s", name[1], log.String())
		}
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log shows the value of an unknown option:\n%s", log.String())
	}
}

func TestReportHidesASecondConnectionString(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	report(zerolog.New(&log), "mongodb://u:pass@host/?appName=shop mongodb://u:s3cret@host")
	if strings.Contains(log.String(), "s3cret") || !strings.Contains(log.String(), "appName") {
		t.Errorf("logs %s", log.String())
	}
}

func TestUnsupportedOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"loadBalanced=true", "maxPoolSize=1", "proxyHost=proxy", "authMechanism=GSSAPI"} {
		uri := "mongodb://u:s3cret@host/?" + query
		problems := checkURI("MONGODB_URI", uri)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "MONGODB_URI has an unsupported option: "+query+": ") {
			t.Errorf("%s: %v", query, problems)
		}
		if client, err := Open(uri, Options{}); err == nil {
			t.Errorf("opens %s", query)
			_ = client.Disconnect(t.Context())
		}
	}
	for _, query := range []string{"", "maxPoolSize=0", "maxPoolSize=10", "loadBalanced=false", "directConnection=true", "compressors=zlib", "tls=true"} {
		if problems := checkURI("MONGODB_URI", "mongodb://host/?"+query); len(problems) != 0 {
			t.Errorf("%s: %v", query, problems)
		}
	}
}

func TestAPlainURIIsNotReported(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	report(zerolog.New(&log), "mongodb+srv://u:p@host/?retryWrites=true&w=majority&readConcernLevel=majority&readPreference=primary&tls=true")
	if log.Len() > 0 {
		t.Errorf("logs %s", log.String())
	}
	if options.Client().ApplyURI("mongodb://host").Timeout != nil {
		t.Error("the driver has a timeout of its own by now: it must be cleared without a URI too")
	}
}

// TestOptionsAreDocumented compares the page with the code.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "mongodb.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, indexed := range []map[string]rule{driverOptions, otherOptions} {
		for _, r := range indexed {
			if !strings.Contains(string(page), "`"+r.name+"`") {
				t.Errorf("docs/mongodb.md does not mention %s", r.name)
			}
		}
	}
}
