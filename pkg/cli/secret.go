package cli

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

// hostURL is a URL of a host alone, without a user, a path or a query that can be secret.
var hostURL = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[A-Za-z0-9.-]+(:[0-9]+)?/?$`)

// mayBeSecret reports whether a value has a character of connection strings, and is more than
// the URL of a host. An operator may have put a secret into the wrong variable, so no problem
// shows such a value.
func mayBeSecret(text string) bool {
	return strings.ContainsAny(text, "=;@") || strings.Contains(text, "://") && !hostURL.MatchString(text)
}

// hide replaces the values that may be secrets in a text.
func (p *parser) hide(text string) string {
	var values []string
	for _, value := range p.doubtful {
		if strings.HasPrefix(value, "-") {
			_, value, _ = strings.Cut(value, "=")
		}
		if mayBeSecret(value) {
			values = append(values, strconv.Quote(value), value, strings.TrimSpace(value), strconv.Quote(strings.ToLower(value)))
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, value := range values {
		text = strings.ReplaceAll(text, value, "***")
	}
	return text
}

// isConnectionString reports whether a value has the shape of a URI, of a list of
// properties, or of a host with a password. A name can have a single one of their
// characters, such as the field @timestamp.
func isConnectionString(text string) bool {
	_, properties, isProperty := strings.Cut(text, "=")
	_, host, hasPassword := strings.Cut(text, ":")
	return strings.Contains(text, "://") || isProperty && strings.Contains(properties, ";") || hasPassword && strings.Contains(host, "@")
}

// connectionStrings reports the settings that the service prints and that look like a
// connection string. Services check those with the tag url themselves.
func (p *parser) connectionStrings() (problems []error) {
	for _, flag := range p.flags {
		_, hidden := flag.Target.Interface().(secret.Text)
		if len(flag.Envs) > 0 && !hidden && !flag.Tag.Has("url") && isConnectionString(fmt.Sprint(flag.Target.Interface())) {
			problems = append(problems, fmt.Errorf("%s is ***, which looks like a connection string: a secret in this setting would be printed, so it is not used", flag.Envs[0]))
			flag.Target.SetZero()
		}
	}
	return problems
}

// proxies reports proxies that net/http cannot use. Its own error would show the password in
// them at each request.
func proxies(environ func(string) (string, bool)) (problems []error) {
	for _, variable := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		value, _ := environ(variable)
		if u, err := url.Parse(value); err == nil && (value == "" || u.Scheme != "" && u.Host != "") {
			continue
		}
		if _, err := url.Parse("http://" + value); err != nil {
			problems = append(problems, fmt.Errorf("%s is not the URL of a proxy: use one such as http://proxy:3128", variable))
		}
	}
	return problems
}
