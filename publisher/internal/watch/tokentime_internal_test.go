package watch

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestTokenTime(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bson.Timestamp{
		// Recorded from a real replica set.
		"826B011028000000072B022C0100296E5A1004ADFFDBE741B34B42BB4AAE5D472C3253463C5F6964003C612D31000004": {T: 0x6B011028, I: 7},
		"82":                   {},
		"8200000000":           {},
		"82XXXXXXXX00000007":   {},
		"836B01102800000007":   {},
		"826B01102800000007":   {T: 0x6B011028, I: 7},
		"826B0110280000000Z04": {},
	} {
		token := testkit.Raw(bson.D{{Key: "_data", Value: data}})
		if got := TokenTime(token); got != want {
			t.Errorf("%s is of %v, want %v", data, got, want)
		}
	}
	if got := TokenTime(nil); !got.IsZero() {
		t.Errorf("no token is of %v", got)
	}
}
