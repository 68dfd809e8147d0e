package watch

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestBatchSizeFollowsTheTimeOfReplies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		took func(size int32) time.Duration
		want []int32
	}{
		"a fast server":                                {func(int32) time.Duration { return time.Millisecond }, []int32{256, 1024, 4096, 4096}},
		"replies of any size are slow":                 {func(int32) time.Duration { return 90 * time.Second }, []int32{64, 256, 1024, 4096, 4096}},
		"replies are slow in proportion to their size": {func(size int32) time.Duration { return time.Duration(size) * time.Second }, []int32{64, 256, 64, 256, 64}},
		"only large replies are slow":                  {func(size int32) time.Duration { return time.Duration(size) * 20 * time.Millisecond }, []int32{256, 1024, 256, 1024, 256}},
	} {
		sizer := newBatchSizer(batchSize)
		for i, want := range test.want {
			if !sizer.replied(int(sizer.size), test.took(sizer.size)) {
				t.Errorf("%s: a full reply is not full", name)
			}
			if sizer.size != want {
				t.Errorf("%s: after reply %d the size is %d, want %d", name, i+1, sizer.size, want)
				break
			}
		}
		size := sizer.size
		if sizer.replied(int(size)-1, time.Hour) || sizer.size != size {
			t.Errorf("%s: a reply that is not full changes the size to %d", name, sizer.size)
		}
	}
	if sizer := newBatchSizer(16); sizer.size != 16 {
		t.Errorf("begins with %d of at most 16", sizer.size)
	}
}

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
