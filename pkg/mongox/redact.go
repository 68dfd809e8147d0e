package mongox

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

const redacted = "***"

// secretOptions are the options of a connection string that hold a secret, in
// lower case as their names are case-insensitive.
var secretOptions = map[string]bool{
	"authmechanismproperties":         true,
	"proxypassword":                   true,
	"proxyusername":                   true,
	"tlscertificatekeyfilepassword":   true,
	"sslclientcertificatekeypassword": true,
}

// Redact gives a connection string that may be logged: it replaces user name, password and
// secret options by ***. In malformed strings it replaces too much rather than too little.
func Redact(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		if uri == "" {
			return ""
		}
		return redacted
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	// A password with an unescaped @ or / is a mistake, but must not be shown: everything
	// before the last @ counts as credentials.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = redacted + rest[at:]
	}
	if !hasQuery {
		return scheme + "://" + rest
	}
	if strings.Contains(query, "@") {
		// Then the question mark was part of the credentials.
		return scheme + "://" + redacted + query[strings.LastIndexByte(query, '@'):]
	}
	pairs := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, pair := range pairs {
		if name, _, _ := strings.Cut(pair, "="); secretOptions[strings.ToLower(name)] {
			pairs[i] = name + "=" + redacted
		}
	}
	return scheme + "://" + rest + "?" + strings.Join(pairs, "&")
}

// conceal replaces the secrets of uri in a text.
func conceal(text, uri string) string {
	for _, secret := range secrets(uri) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// secrets lists the secrets of uri, as written and unescaped, the longest first because it
// can contain others. A file with two connection strings has the secrets of both.
func secrets(uri string) []string {
	var found []string
	add := func(s string) {
		if s == "" {
			return
		}
		found = append(found, s)
		if plain, err := url.PathUnescape(s); err == nil && plain != s {
			found = append(found, plain)
		}
	}
	add(uri)
	_, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return found
	}
	for _, part := range append(strings.Split(rest, "://"), rest) {
		at := strings.LastIndexByte(part, '@')
		if at < 0 {
			continue
		}
		credentials := part[:at]
		add(credentials)
		if _, password, ok := strings.Cut(credentials, ":"); ok {
			add(password)
		}
	}
	_, query, _ := strings.Cut(rest, "?")
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		if name, value, _ := strings.Cut(pair, "="); secretOptions[strings.ToLower(name)] {
			add(value)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return found
}
