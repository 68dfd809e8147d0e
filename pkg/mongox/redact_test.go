package mongox_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"":                                    "",
		"nonsense":                            "***",
		"user:secret@host":                    "***",
		"mongodb://host:27017":                "mongodb://host:27017",
		"mongodb://u:p@a:1,b:2/db":            "mongodb://***@a:1,b:2/db",
		"mongodb://u:p@a/?replicaSet=rs0":     "mongodb://***@a/?replicaSet=rs0",
		"mongodb+srv://u:p@c.mongodb.net":     "mongodb+srv://***@c.mongodb.net",
		"mongodb://u@a":                       "mongodb://***@a",
		"mongodb://u:p@ss@a/x":                "mongodb://***@a/x",
		"mongodb://u:p/ss@a/x":                "mongodb://***@a/x",
		"mongodb://u:p?ss@a/x":                "mongodb://***@a/x",
		"mongodb://a/?proxyPassword=x&w=1":    "mongodb://a/?proxyPassword=***&w=1",
		"mongodb://a/?PROXYPASSWORD=x;w=1":    "mongodb://a/?PROXYPASSWORD=***&w=1",
		"mongodb://a/?tls=true&authSource=db": "mongodb://a/?tls=true&authSource=db",
		"mongodb://a/?authMechanismProperties=AWS_SESSION_TOKEN:x,y:z": "mongodb://a/?authMechanismProperties=***",
	} {
		if got := mongox.Redact(uri); got != want {
			t.Errorf("%s: got %s, want %s", uri, got, want)
		}
		if got := (mongox.Store{URI: uri, Database: "d", Collection: "c"}).String(); got != want+" d.c" {
			t.Errorf("the store of %s prints as %s", uri, got)
		}
	}
}

// A password is never shown, whatever characters it has.
func TestRedactHidesPasswords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		password := "SECRET" + rapid.StringMatching(`[a-z@/?:#%&=;,]{0,12}`).Draw(t, "password") + "SECRET"
		uri := "mongodb://user:" + password + "@host:27017/db?replicaSet=rs0"
		if got := mongox.Redact(uri); strings.Contains(got, "SECRET") {
			t.Fatalf("%s became %s", uri, got)
		}
	})
}
