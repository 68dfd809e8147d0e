package mongoerr

import (
	"errors"
	"fmt"
	"strconv"
)

// Code is a MongoDB error code.
type Code int32

// These are the codes that this server returns, named as in MongoDB's error_codes.yml.
const (
	InternalError                   Code = 1
	BadValue                        Code = 2
	HostUnreachable                 Code = 6
	HostNotFound                    Code = 7
	UnknownError                    Code = 8
	FailedToParse                   Code = 9
	Unauthorized                    Code = 13
	TypeMismatch                    Code = 14
	Overflow                        Code = 15
	InvalidLength                   Code = 16
	ProtocolError                   Code = 17
	AuthenticationFailed            Code = 18
	IllegalOperation                Code = 20
	InvalidBSON                     Code = 22
	LockTimeout                     Code = 24
	NamespaceNotFound               Code = 26
	IndexNotFound                   Code = 27
	PathNotViable                   Code = 28
	ConflictingUpdateOperators      Code = 40
	CursorNotFound                  Code = 43
	NamespaceExists                 Code = 48
	MaxTimeMSExpired                Code = 50
	DollarPrefixedFieldName         Code = 52
	InvalidIDField                  Code = 53
	NotSingleValueField             Code = 54
	InvalidDBRef                    Code = 55
	EmptyFieldName                  Code = 56
	DottedFieldName                 Code = 57
	CommandNotFound                 Code = 59
	ImmutableField                  Code = 66
	CannotCreateIndex               Code = 67
	InvalidOptions                  Code = 72
	InvalidNamespace                Code = 73
	IndexOptionsConflict            Code = 85
	IndexKeySpecsConflict           Code = 86
	NetworkTimeout                  Code = 89
	ShutdownInProgress              Code = 91
	UnsatisfiableWriteConcern       Code = 100
	WriteConflict                   Code = 112
	DocumentValidationFailure       Code = 121
	ConflictingOperationInProgress  Code = 117
	CommandNotSupported             Code = 115
	FailedToSatisfyReadPreference   Code = 133
	ReadConcernMajorityNotAvailable Code = 134
	CappedPositionLost              Code = 136
	CannotIndexParallelArrays       Code = 171
	InvalidPipelineOperator         Code = 168
	QueryPlanKilled                 Code = 175
	PrimarySteppedDown              Code = 189
	ClusterTimeFailsRateLimiter     Code = 205
	InvalidIndexSpecificationOption Code = 197
	InvalidUUID                     Code = 207
	TransactionTooOld               Code = 225
	RetryChangeStream               Code = 234
	CursorKilled                    Code = 237
	NotImplemented                  Code = 238
	SnapshotUnavailable             Code = 246
	NoSuchTransaction               Code = 251
	TransactionCommitted            Code = 256
	InvalidResumeToken              Code = 260
	ExceededTimeLimit               Code = 262
	OperationNotSupportedInTxn      Code = 263
	PreparedTransactionInProgress   Code = 267
	ClientDisconnect                Code = 279
	ChangeStreamFatalError          Code = 280
	ChangeStreamHistoryLost         Code = 286
	CollectionUUIDMismatch          Code = 361
	SocketException                 Code = 9001
	NotWritablePrimary              Code = 10107
	BSONObjectTooLarge              Code = 10334
	DuplicateKey                    Code = 11000
	InterruptedAtShutdown           Code = 11600
	Interrupted                     Code = 11601
	InterruptedDueToReplStateChange Code = 11602
	NotPrimaryNoSecondaryOk         Code = 13435
	NotPrimaryOrSecondary           Code = 13436
)

var names = map[Code]string{
	InternalError: "InternalError", BadValue: "BadValue", HostUnreachable: "HostUnreachable",
	HostNotFound: "HostNotFound", UnknownError: "UnknownError", FailedToParse: "FailedToParse",
	Unauthorized: "Unauthorized", TypeMismatch: "TypeMismatch", Overflow: "Overflow",
	InvalidLength: "InvalidLength", ProtocolError: "ProtocolError", IllegalOperation: "IllegalOperation",
	InvalidBSON: "InvalidBSON", LockTimeout: "LockTimeout", NamespaceNotFound: "NamespaceNotFound",
	IndexNotFound: "IndexNotFound", PathNotViable: "PathNotViable",
	ConflictingUpdateOperators: "ConflictingUpdateOperators", CursorNotFound: "CursorNotFound",
	NamespaceExists: "NamespaceExists", MaxTimeMSExpired: "MaxTimeMSExpired",
	DollarPrefixedFieldName: "DollarPrefixedFieldName", InvalidIDField: "InvalidIdField",
	NotSingleValueField: "NotSingleValueField", InvalidDBRef: "InvalidDBRef", EmptyFieldName: "EmptyFieldName",
	DottedFieldName: "DottedFieldName", CommandNotFound: "CommandNotFound", ImmutableField: "ImmutableField",
	CannotCreateIndex: "CannotCreateIndex", InvalidOptions: "InvalidOptions", InvalidNamespace: "InvalidNamespace",
	IndexOptionsConflict: "IndexOptionsConflict", IndexKeySpecsConflict: "IndexKeySpecsConflict",
	NetworkTimeout: "NetworkTimeout", ShutdownInProgress: "ShutdownInProgress",
	UnsatisfiableWriteConcern: "UnsatisfiableWriteConcern", WriteConflict: "WriteConflict",
	ConflictingOperationInProgress: "ConflictingOperationInProgress", CommandNotSupported: "CommandNotSupported",
	FailedToSatisfyReadPreference:   "FailedToSatisfyReadPreference",
	ReadConcernMajorityNotAvailable: "ReadConcernMajorityNotAvailableYet",
	CappedPositionLost:              "CappedPositionLost", CannotIndexParallelArrays: "CannotIndexParallelArrays",
	InvalidPipelineOperator: "InvalidPipelineOperator", PrimarySteppedDown: "PrimarySteppedDown",
	InvalidIndexSpecificationOption: "InvalidIndexSpecificationOption", InvalidUUID: "InvalidUUID",
	TransactionTooOld: "TransactionTooOld", RetryChangeStream: "RetryChangeStream", CursorKilled: "CursorKilled",
	NotImplemented: "NotImplemented", SnapshotUnavailable: "SnapshotUnavailable",
	NoSuchTransaction: "NoSuchTransaction", TransactionCommitted: "TransactionCommitted",
	InvalidResumeToken: "InvalidResumeToken", ExceededTimeLimit: "ExceededTimeLimit",
	OperationNotSupportedInTxn:    "OperationNotSupportedInTransaction",
	PreparedTransactionInProgress: "PreparedTransactionInProgress",
	ChangeStreamFatalError:        "ChangeStreamFatalError", ChangeStreamHistoryLost: "ChangeStreamHistoryLost",
	CollectionUUIDMismatch: "CollectionUUIDMismatch", SocketException: "SocketException", NotWritablePrimary: "NotWritablePrimary",
	BSONObjectTooLarge: "BSONObjectTooLarge", DuplicateKey: "DuplicateKey",
	InterruptedAtShutdown: "InterruptedAtShutdown", Interrupted: "Interrupted",
	InterruptedDueToReplStateChange: "InterruptedDueToReplStateChange",
	NotPrimaryNoSecondaryOk:         "NotPrimaryNoSecondaryOk", NotPrimaryOrSecondary: "NotPrimaryOrSecondary",
	181: "AmbiguousIndexKeyPattern",
	161: "IncompatibleCollationVersion",
	23:  "AlreadyInitialized", 61: "ShardKeyNotFound", 70: "ShardNotFound", 177: "ZoneNotFound", 178: "RangeOverlapConflict",
	// Only faults and rare paths return these codes.
	AuthenticationFailed: "AuthenticationFailed", 334: "MechanismUnavailable", 63: "StaleShardVersion", 64: "WriteConcernTimeout", 79: "UnknownReplWriteConcern",
	96: "OperationFailed", DocumentValidationFailure: "DocumentValidationFailure", 125: "CommandFailed", 143: "CursorInUse", 146: "ExceededMemoryLimit",
	150: "StaleEpoch", QueryPlanKilled: "QueryPlanKilled", ClusterTimeFailsRateLimiter: "ClusterTimeFailsRateLimiter",
	206: "NoSuchSession", ClientDisconnect: "ClientDisconnect", 239: "SnapshotTooOld", 241: "ConversionFailure", 257: "TransactionTooLarge", 276: "IndexBuildAborted",
	290: "TransactionExceededLifetimeLimitSeconds", 292: "QueryExceededMemoryLimitNoDiskUseAllowed", 322: "APIVersionError",
	352: "UnsupportedOpQueryCommand", 365: "TemporarilyUnavailable", 371: "UserWritesBlocked", 391: "ReauthenticationRequired",
	402: "ResourceExhausted", 433: "AdmissionQueueOverflow", 462: "IngressRequestRateLimitExceeded", 10058: "LegacyNotPrimary",
	13388: "StaleConfig", 14031: "OutOfDiskSpace",
}

// Name returns the code's name. A code without a name is "Location" and its number, as in
// MongoDB.
func (c Code) Name() string {
	if n, ok := names[c]; ok {
		return n
	}
	return "Location" + strconv.Itoa(int(c))
}

// These are error labels of the driver specifications.
const (
	LabelTransientTransaction   = "TransientTransactionError"
	LabelRetryableWrite         = "RetryableWriteError"
	LabelResumableChangeStream  = "ResumableChangeStreamError"
	LabelNonResumableChange     = "NonResumableChangeStreamError"
	LabelNoWritesPerformed      = "NoWritesPerformed"
	notImplementedMessagePrefix = "mongoemu does not support "
)

// Error is the failure of a command or of one statement.
type Error struct {
	Code    Code
	Message string
	// KeyPattern and KeyValue describe a duplicate key; nil otherwise.
	KeyPattern, KeyValue []byte
	// Info identifies the document that a validator refused; nil otherwise.
	Info []byte
}

// New returns an error with a code and a formatted message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Lacking returns the error for a feature that MongoDB has and this server does not. The
// message names the feature.
func Lacking(format string, args ...any) *Error {
	return New(NotImplemented, notImplementedMessagePrefix+format, args...)
}

// Error returns the code name and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("(%s) %s", e.Code.Name(), e.Message)
}

// As returns the Error in err, or wraps err in an Error with code InternalError.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return New(InternalError, "%s", err.Error())
}

// Has reports whether err is an Error with the given code.
func Has(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Resumable reports whether a change stream can be resumed after this error: if it is
// retryable, or if another node may succeed.
func (c Code) Resumable() bool {
	switch c {
	case FailedToSatisfyReadPreference, RetryChangeStream, 150, 13388:
		return true
	}
	return c.Retryable()
}

// EndsStreams reports whether a change stream cannot be resumed after this error.
func (c Code) EndsStreams() bool { return c == ChangeStreamFatalError || c == ChangeStreamHistoryLost }

// StateChange reports whether the code says that a node is not primary or is shutting
// down. Such an error carries the topology version, so that a driver can ignore an error
// that is older than its own view.
func (c Code) StateChange() bool {
	switch c {
	case NotWritablePrimary, NotPrimaryNoSecondaryOk, 10058, InterruptedDueToReplStateChange, NotPrimaryOrSecondary,
		PrimarySteppedDown, ShutdownInProgress, InterruptedAtShutdown:
		return true
	}
	return false
}

// Retryable reports whether the same command can be sent again after this error. It is
// the server's error category RetriableError.
func (c Code) Retryable() bool {
	switch c {
	case HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, ReadConcernMajorityNotAvailable,
		PrimarySteppedDown, ExceededTimeLimit, SocketException, NotWritablePrimary, InterruptedAtShutdown,
		InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary, 402, 462:
		return true
	}
	return false
}
