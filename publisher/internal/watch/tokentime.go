package watch

import (
	"encoding/binary"
	"encoding/hex"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// tokenTimestamp is the type of a timestamp, in hexadecimal, at the start of a token. A
// token is a key string, and its first value is the cluster time.
// https://github.com/mongodb/mongo/blob/master/src/mongo/db/pipeline/resume_token.h
const tokenTimestamp = "82"

// TokenTime returns the cluster time of a resume token, zero if it is unknown. The format
// of tokens is internal to the server and may change, so the time is used only for the lag,
// for timeouts and to show it, and never decides what is read.
func TokenTime(token bson.Raw) bson.Timestamp {
	data, ok := token.Lookup("_data").StringValueOK()
	if !ok || len(data) < 18 || data[:2] != tokenTimestamp {
		return bson.Timestamp{}
	}
	at, err := hex.DecodeString(data[2:18])
	if err != nil {
		return bson.Timestamp{}
	}
	return bson.Timestamp{T: binary.BigEndian.Uint32(at), I: binary.BigEndian.Uint32(at[4:])}
}
