package event_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden is the expected message of testdata/<case>.json. Consumers in other languages,
// and messages that are in a topic during an upgrade, depend on it.
type golden struct {
	// Source is the event document in canonical extended JSON.
	Source json.RawMessage `json:"source"`
	// ClaimCheck and Buckets are options of the encoding.
	ClaimCheck bool `json:"claimCheck,omitempty"`
	Buckets    int  `json:"buckets,omitempty"`

	MessageID  string          `json:"messageId"`
	SessionKey string          `json:"sessionKey"`
	Properties json.RawMessage `json:"properties"`
	JSON       string          `json:"json"`
	BSON       string          `json:"bson"`
}

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want golden
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			got := want
			encodeGolden(t, &got)
			if *update {
				writeGolden(t, file, got)
				return
			}
			if got.MessageID != want.MessageID || got.SessionKey != want.SessionKey || got.JSON != want.JSON || got.BSON != want.BSON || !sameJSON(t, got.Properties, want.Properties) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			decodeGolden(t, want)
		})
	}
}

// encodeGolden fills in the results for g's source.
func encodeGolden(t *testing.T, g *golden) {
	t.Helper()
	var doc bson.Raw
	if err := bson.UnmarshalExtJSON(g.Source, true, &doc); err != nil {
		t.Fatal(err)
	}
	ev, err := reader(t).Read(doc)
	if err != nil {
		t.Fatal(err)
	}
	mode := event.SessionPerAggregate
	if g.Buckets > 0 {
		mode = event.SessionPerBucket
	}
	sessions := event.NewSessionKeys(mode, g.Buckets)
	for _, encoding := range []event.Encoding{event.EncodingJSON, event.EncodingBSON} {
		enc := event.NewEncoder(encoding, sessions)
		encode := enc.Encode
		if g.ClaimCheck {
			encode = enc.EncodeClaimCheck
		}
		m, err := encode(&ev, 3)
		if err != nil {
			t.Fatal(err)
		}
		g.MessageID, g.SessionKey = m.MessageID, m.SessionKey
		if g.Properties, err = json.Marshal(properties(&m)); err != nil {
			t.Fatal(err)
		}
		if m.ContentType == event.ContentTypeJSON {
			g.JSON = string(m.Body)
		} else {
			g.BSON = hex.EncodeToString(m.Body)
		}
	}
}

// decodeGolden decodes the golden bodies.
func decodeGolden(t *testing.T, g golden) {
	t.Helper()
	body, err := hex.DecodeString(g.BSON)
	if err != nil {
		t.Fatal(err)
	}
	fromBSON, err := event.DecodeBody("application/bson", body)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := event.DecodeBody("application/json", []byte(g.JSON))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fromJSON, fromBSON) {
		t.Errorf("the JSON reads as %s, the BSON as %s", fromJSON, fromBSON)
	}
}

func writeGolden(t *testing.T, file string, g golden) {
	t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(g); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var left, right bytes.Buffer
	if err := json.Compact(&left, a); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&right, b); err != nil {
		t.Fatal(err)
	}
	return left.String() == right.String()
}
