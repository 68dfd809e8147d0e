package event

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// wrapperKey gives the first key of the next object if that key makes the object the
// wrapper of a type, such as {"$oid": "…"}. The next byte is the brace of the object.
func (d *jsonDecoder) wrapperKey() string {
	rest := jsonDecoder{in: d.in, at: d.at + 1}
	if rest.next() != '"' || rest.at+1 >= len(d.in) || d.in[rest.at+1] != '$' && d.in[rest.at+1] != '\\' {
		return ""
	}
	name, err := rest.string()
	if err != nil {
		return ""
	}
	return wrapperName(name)
}

// wrapper reads the wrapper of a type and appends its value. It reads the common forms
// itself and leaves all others to the driver.
func (d *jsonDecoder) wrapper(key string, depth int) (bson.Type, error) {
	start, length := d.at, len(d.out)
	var t bson.Type
	switch key {
	case "$date":
		t = d.dateWrapper()
	case "$oid":
		t = d.objectIDWrapper()
	case "$binary":
		t = d.binaryWrapper()
	}
	if t != 0 {
		return t, nil
	}
	d.at, d.out = start, d.out[:length]
	return d.driverWrapper(depth)
}

// wrapped gives the string in {"<key>": "…"}. If there is no string, the driver reports why.
func (d *jsonDecoder) wrapped(key string) ([]byte, bool) {
	if !d.skip('{') || !d.field(key) {
		return nil, false
	}
	s, ok := d.quoted()
	return s, ok && d.skip('}')
}

// skip skips a byte, and white space before it.
func (d *jsonDecoder) skip(want byte) bool {
	if d.next() != want {
		return false
	}
	d.at++
	return true
}

// field skips a key and its colon.
func (d *jsonDecoder) field(key string) bool {
	s, ok := d.quoted()
	return ok && string(s) == key && d.skip(':')
}

// quoted reads a string if there is one.
func (d *jsonDecoder) quoted() ([]byte, bool) {
	if d.next() != '"' {
		return nil, false
	}
	s, err := d.string()
	return s, err == nil
}

func (d *jsonDecoder) dateWrapper() bson.Type {
	s, ok := d.wrapped("$date")
	if !ok {
		return 0
	}
	var t time.Time
	if t.UnmarshalText(s) != nil {
		return 0
	}
	d.out = binary.LittleEndian.AppendUint64(d.out, uint64(bson.NewDateTimeFromTime(t)))
	return bson.TypeDateTime
}

func (d *jsonDecoder) objectIDWrapper() bson.Type {
	s, ok := d.wrapped("$oid")
	if !ok || len(s) != 24 {
		return 0
	}
	var err error
	if d.out, err = hex.AppendDecode(d.out, s); err != nil {
		return 0
	}
	return bson.TypeObjectID
}

// binaryWrapper reads {"$binary": {"base64": "…", "subType": "…"}}, in this order.
func (d *jsonDecoder) binaryWrapper() bson.Type {
	if !d.skip('{') || !d.field("$binary") || !d.skip('{') || !d.field("base64") {
		return 0
	}
	data, ok := d.quoted()
	if !ok {
		return 0
	}
	start := len(d.out)
	d.out = append(d.out, 0, 0, 0, 0, 0)
	var err error
	if d.out, err = base64.StdEncoding.AppendDecode(d.out, data); err != nil || !d.skip(',') || !d.field("subType") {
		return 0
	}
	digits, ok := d.quoted()
	if !ok || len(digits) != 2 || !d.skip('}') || !d.skip('}') {
		return 0
	}
	var subtype [1]byte
	if _, err := hex.Decode(subtype[:], digits); err != nil || subtype[0] == bson.TypeBinaryBinaryOld {
		return 0
	}
	binary.LittleEndian.PutUint32(d.out[start:], uint32(len(d.out)-start-5))
	d.out[start+4] = subtype[0]
	return bson.TypeBinary
}

// driverWrapper has the driver read the next wrapper, with at most depth levels.
func (d *jsonDecoder) driverWrapper(depth int) (bson.Type, error) {
	// Read it as an object first. This finds its end, and refuses input that the driver
	// would accept.
	start, length := d.at, len(d.out)
	if err := d.object(depth + 1); err != nil {
		return 0, err
	}
	d.out = d.out[:length]

	const key = "v"
	text := make([]byte, 0, d.at-start+8)
	text = append(text, `{"`+key+`":`...)
	text = append(text, d.in[start:d.at]...)
	text = append(text, '}')
	var doc bson.Raw
	if err := bson.UnmarshalExtJSON(text, false, &doc); err != nil {
		return 0, malformed("extended JSON at byte %d: %v", start, err)
	}
	canonical, _, err := validate(doc, 0)
	if err != nil {
		return 0, err
	}
	if !canonical {
		doc = appendCanonical(nil, doc)
	}
	rest, err := elements(doc)
	if err != nil {
		return 0, err
	}
	_, value, _, err := nextElement(rest)
	if err != nil {
		return 0, err
	}
	d.out = append(d.out, value.Value...)
	return value.Type, nil
}
