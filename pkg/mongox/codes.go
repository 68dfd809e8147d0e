package mongox

// Codes of MongoDB's errors that both services, or several packages of one service, handle.
// They are arguments of [HasCode] and keys of tables. A code that only one package uses is
// defined there. Source:
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml.
const (
	// CodeFailedToParse says that the server does not know a part of the command. The
	// server also uses it for a resume token whose text is not hexadecimal.
	CodeFailedToParse = 9
	// CodeUnauthorized says that the user lacks a right.
	CodeUnauthorized = 13
	// CodeAuthenticationFailed says that the credentials are wrong.
	CodeAuthenticationFailed = 18
	// CodeNamespaceNotFound says that there is no such collection.
	CodeNamespaceNotFound = 26
	// CodeNamespaceExists says that there is a collection of that name.
	CodeNamespaceExists = 48
	// codeMaxTimeMSExpired says that the command has exceeded its maxTimeMS.
	codeMaxTimeMSExpired = 50
	// CodeCommandNotFound says that the server does not know the command.
	CodeCommandNotFound = 59
	// CodeInvalidNamespace says that the server takes no collection of that name.
	CodeInvalidNamespace = 73
	// CodeWriteConflict says that two transactions write to one document.
	CodeWriteConflict = 112
	// CodeCommandNotSupported says that the server knows the command, but does not serve it.
	CodeCommandNotSupported = 115
	// CodeMajorityNotEnabled says that the server has no read concern majority
	// (ReadConcernMajorityNotEnabled).
	CodeMajorityNotEnabled = 148
	// CodeNotImplemented says that the server lacks a feature that the command needs.
	CodeNotImplemented = 238
	// CodeUUIDMismatch says that the collection of the name has another UUID, or is missing
	// (CollectionUUIDMismatch).
	CodeUUIDMismatch = 361
	// CodeAtlasError is the code of errors of the proxy of MongoDB Atlas.
	CodeAtlasError = 8000
	// CodeDuplicateKey says that another document has the same values in a unique index.
	CodeDuplicateKey = 11000
	// CodeUnknownField says that the server does not know a field of the command
	// (Location40415).
	CodeUnknownField = 40415
)

// What to do about refusals, as the ends of error messages.
const (
	// RemedyCredentials is for wrong credentials.
	RemedyCredentials = "check the user, the password and authSource in the connection string"
	// RemedyMajority is for [CodeMajorityNotEnabled].
	RemedyMajority = "start mongod with majority read concern enabled"
)
