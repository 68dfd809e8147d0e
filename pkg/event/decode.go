package event

import (
	"mime"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// DecodeBody gives the event document in a message's body, in the form of [Canonical]. It
// validates a BSON body completely and returns it without a copy if it is canonical. An
// unknown content type, or a body that cannot be parsed, is a [*ContractError].
func DecodeBody(contentType string, body []byte) (bson.Raw, error) {
	switch mediaType(contentType) {
	case ContentTypeJSON:
		return decodeJSON(body)
	case ContentTypeBSON:
		doc, err := Canonical(body)
		if err != nil {
			return nil, err
		}
		return doc, nil
	default:
		return nil, malformed("unknown content type %q, known are %s and %s", contentType, ContentTypeJSON, ContentTypeBSON)
	}
}

// mediaType strips parameters such as a charset.
func mediaType(contentType string) string {
	if contentType == ContentTypeJSON || contentType == ContentTypeBSON {
		return contentType
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return strings.ToLower(strings.TrimSpace(contentType))
	}
	return t
}
