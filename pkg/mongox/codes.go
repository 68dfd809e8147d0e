package mongox

// Codes of MongoDB's errors that no waiting cures, for [HasCode] (src/mongo/base/error_codes.yml).
const (
	// CodeUnauthorized says that the user lacks a right.
	CodeUnauthorized = 13
	// CodeAuthenticationFailed says that the credentials are wrong.
	CodeAuthenticationFailed = 18
	// CodeAtlasError is what the proxy of MongoDB Atlas answers in its own name.
	CodeAtlasError = 8000
)
