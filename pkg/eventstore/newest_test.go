package eventstore_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestNewestQueriesEveryTypeOfAnID(t *testing.T) {
	t.Parallel()
	oid := bson.NewObjectID()
	uuid := bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte{0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255}}
	empty := reply("firstBatch", 0)
	for id, test := range map[string]struct {
		replies []bson.D
		asked   []string
		newest  int64
	}{
		"user-1":  {[]bson.D{reply("firstBatch", 0, stored("user-1", 9))}, []string{`"user-1"`}, 9},
		"unknown": {[]bson.D{empty}, []string{`"unknown"`}, 0},
		oid.Hex(): {[]bson.D{empty, reply("firstBatch", 0, stored(oid, 4))}, []string{`"` + oid.Hex() + `"`, `{"$oid":"` + oid.Hex() + `"}`}, 4},
		"17":      {[]bson.D{empty, reply("firstBatch", 0, stored(int64(17), 5))}, []string{`"17"`, `17`}, 5},
		"017":     {[]bson.D{empty}, []string{`"017"`}, 0},
		"00112233-4455-6677-8899-aabbccddeeff": {[]bson.D{empty, reply("firstBatch", 0, stored(uuid, 6))}, []string{
			`"00112233-4455-6677-8899-aabbccddeeff"`, `{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}`,
		}, 6},
	} {
		s, collection := newServer(t, test.replies...)
		newest, err := newReader(t, collection).Newest(t.Context(), id)
		if err != nil || newest != test.newest {
			t.Errorf("%s: newest event %d, want %d; %v", id, newest, test.newest, err)
		}
		for i, asked := range test.asked {
			want := `{"find":"events","filter":{"aggregateId":` + asked + `},"limit":1,"projection":{"_id":0,"aggregateId":1,"eventId":1},"singleBatch":true,"sort":{"eventId":-1},"readConcern":{"level":"majority"}}`
			if got := s.Command(t, i); got != want {
				t.Errorf("%s: asked by\n%s, want\n%s", id, got, want)
			}
		}
	}
}
