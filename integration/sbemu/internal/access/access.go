// Package access checks permissions: shared access policies, and the tokens that are
// signed with their keys.
package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Rights are the operations that a policy allows, as a set of bits.
type Rights uint8

// The rights that a policy can grant.
const (
	Listen Rights = 1 << iota
	Send
	Manage

	All = Listen | Send | Manage
)

// String returns the rights as the service's errors name them.
func (r Rights) String() string {
	switch r {
	case Listen:
		return "Listen"
	case Send:
		return "Send"
	case Manage:
		return "Manage"
	default:
		return "Listen, Send or Manage"
	}
}

// Policy is a shared access key with its rights.
type Policy struct {
	Name   string
	Key    string
	Rights Rights
}

// ErrToken means that a token grants no rights. The error that wraps it has the service's
// description of the reason.
var ErrToken = errors.New("token refused")

// Check returns the rights that a shared access signature grants on a path, and the time
// at which they end.
func Check(policies []Policy, token, path string) (Rights, time.Time, error) {
	fields, found := strings.CutPrefix(token, "SharedAccessSignature ")
	parts := make(map[string]string)

	for field := range strings.SplitSeq(fields, "&") {
		key, value, _ := strings.Cut(field, "=")
		parts[key] = value
	}

	seconds, numErr := strconv.ParseInt(parts["se"], 10, 64)
	resource, urlErr := url.QueryUnescape(parts["sr"])
	signature, sigErr := url.QueryUnescape(parts["sig"])

	if !found || numErr != nil || urlErr != nil || sigErr != nil || parts["skn"] == "" {
		return 0, time.Time{}, refused("MalformedToken: The token is malformed.")
	}

	until := time.Unix(seconds, 0)
	if !until.After(time.Now()) {
		return 0, time.Time{}, refused("ExpiredToken: The token is expired. Expiration time: '" + until.UTC().Format(time.RFC3339) + "'.")
	}

	for _, p := range policies {
		if p.Name != parts["skn"] {
			continue
		}

		mac := hmac.New(sha256.New, []byte(p.Key))
		mac.Write([]byte(parts["sr"] + "\n" + parts["se"]))

		if !hmac.Equal([]byte(base64.StdEncoding.EncodeToString(mac.Sum(nil))), []byte(signature)) {
			continue // maybe signed with the policy's other key
		}

		if !covers(resource, path) {
			return 0, time.Time{}, refused("InvalidAudience: The token does not cover the resource '" + path + "'.")
		}

		return p.Rights, until, nil
	}

	return 0, time.Time{}, refused("InvalidSignature: The token has an invalid signature.")
}

func refused(why string) error { return fmt.Errorf("%w: %s", ErrToken, why) }

// Reason returns the service's description of why a token was refused.
func Reason(err error) string {
	return strings.TrimPrefix(err.Error(), ErrToken.Error()+": ")
}

// covers reports whether a token's resource is the path or a parent of it. The resource
// may be a whole namespace, with or without a scheme.
func covers(resource, path string) bool {
	above := ""

	if _, rest, found := strings.Cut(resource, "://"); found {
		resource = rest
	}

	resource, _, _ = strings.Cut(resource, "?")

	if _, rest, found := strings.Cut(resource, "/"); found {
		above = strings.ToLower(strings.Trim(rest, "/"))
	}

	path = strings.ToLower(strings.Trim(path, "/"))

	return above == "" || path == above || strings.HasPrefix(path, above+"/")
}
