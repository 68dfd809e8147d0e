package cli

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/penstock-cdc/penstock/pkg/secretfile"
)

// hidden replaces a value that may be a secret.
const hidden = "***"

// hostURL is a URL of a host alone, without a user, a path or a query that can be secret.
var hostURL = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[A-Za-z0-9.-]+(:[0-9]+)?/?$`)

// mayBeSecret reports whether a value has a character of connection strings, and is more than
// the URL of a host. An operator may have put a secret into the wrong variable, so no problem
// shows such a value.
func mayBeSecret(text string) bool {
	return strings.ContainsAny(text, "=;@") || strings.Contains(text, "://") && !hostURL.MatchString(text)
}

// isConnectionString reports whether a value has the shape of a URI, of a list of
// properties, or of a host with a password. A name can have a single one of their
// characters, such as the field @timestamp.
func isConnectionString(text string) bool {
	_, properties, isProperty := strings.Cut(text, "=")
	_, host, hasPassword := strings.Cut(text, ":")
	return strings.Contains(text, "://") || isProperty && strings.Contains(properties, ";") || hasPassword && strings.Contains(host, "@")
}

// checkProxies reports proxies that net/http cannot use. Its own error would show the
// password in them at each request.
func (p *parser) checkProxies(environ func(string) (string, bool)) {
	for _, variable := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		value, _ := environ(variable)
		if u, err := url.Parse(value); err == nil && (value == "" || u.Scheme != "" && u.Host != "") {
			continue
		}
		if _, err := url.Parse("http://" + value); err != nil {
			p.problems = append(p.problems, variable+" is not the URL of a proxy: use one such as http://proxy:3128")
		}
	}
}

// readSecretFiles sets the secrets that files hold. A flag with the tag content names a file,
// and the tag names the flag of the secret in it.
func (p *parser) readSecretFiles() {
	for _, file := range p.flags {
		path := file.Target.String()
		if !file.Tag.Has("content") || path == "" {
			continue
		}
		secret := p.flagNamed(file.Tag.Get("content"))
		if secret.Target.String() != "" {
			p.problems = append(p.problems, fmt.Sprintf("%s (--%s) is set beside %s: unset one of them", file.Envs[0], file.Name, secret.Envs[0]))
			p.markBroken(secret.Value)
			continue
		}
		content, err := secretfile.Read(path)
		if err != nil {
			p.problems = append(p.problems, fmt.Sprintf("%s (--%s) cannot be used: %v", file.Envs[0], file.Name, err))
			p.markBroken(secret.Value)
			continue
		}
		secret.Target.SetString(content)
	}
}

func (p *parser) flagNamed(name string) *kong.Flag {
	for _, flag := range p.flags {
		if flag.Name == name {
			return flag
		}
	}
	panic("a tag names the flag " + name + ", which does not exist")
}
