package sbus

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Types of tokens, as $cbs names them.
const (
	tokenSignature = "servicebus.windows.net:sastoken"
	tokenJWT       = "jwt"
)

// signatureLifetime is the lifetime of a signature of [Namespace.Token]. It tolerates
// clocks that differ by some minutes.
const signatureLifetime = time.Hour

// tokenScope is the scope that azservicebus uses, with both slashes. The credential caches
// tokens by scope, so the SDK's clients and this package share tokens.
const tokenScope = "https://servicebus.azure.net//.default"

// Token is a claim to an entity, in the form that $cbs takes.
type Token struct {
	// Value is a secret.
	Value string
	// Type is the type that put-token takes.
	Type string
	// Expires is when the token ends by this process's clock. It is zero for a signature
	// of the connection string, which cannot be renewed.
	Expires time.Time
}

// Token makes a token for an audience such as amqps://host/topic. Without a connection
// string it comes from the credential's cache, or from the identity provider if the cache
// has no valid token.
func (n *Namespace) Token(ctx context.Context, audience string) (Token, error) {
	if n.credential != nil {
		token, err := n.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{tokenScope}})
		if err != nil {
			return Token{}, fmt.Errorf("get a token of the Azure identity: %w", err)
		}
		return Token{Value: token.Token, Type: tokenJWT, Expires: token.ExpiresOn}, nil
	}
	connectionString, _ := n.signer.get()
	if signature := property(connectionString, "SharedAccessSignature"); signature != "" {
		return Token{Value: signature, Type: tokenSignature}, nil
	}
	expires := time.Now().Add(signatureLifetime)
	value := sign(audience, property(connectionString, "SharedAccessKeyName"), property(connectionString, "SharedAccessKey"), expires)
	return Token{Value: value, Type: tokenSignature, Expires: expires}, nil
}

// sign makes a shared access signature.
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-sas
func sign(audience, keyName, key string, expires time.Time) string {
	resource := strings.ToLower(url.QueryEscape(audience))
	until := strconv.FormatInt(expires.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(resource + "\n" + until))
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "SharedAccessSignature sr=" + resource + "&sig=" + signature + "&se=" + until + "&skn=" + keyName
}

// Host is the namespace's host name, with its port if the configuration has one.
func (n *Namespace) Host() string { return n.config.Host() }

// Plain reports whether the namespace is Microsoft's emulator, or a stand-in for it,
// which speaks AMQP without TLS.
func (n *Namespace) Plain() bool { return isEmulator(string(n.config.ConnectionString)) }

func isEmulator(connectionString string) bool {
	plain, err := strconv.ParseBool(property(connectionString, "UseDevelopmentEmulator"))
	return err == nil && plain
}
