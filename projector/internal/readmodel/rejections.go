package readmodel

// rejections are the server's codes for documents and updates that can never succeed, with
// the server's name of the code, or a description if it has no name. They park one
// aggregate permanently.
//
// Every code of the server's table is classified. The codes that are not here are
//
//   - transient: see mongox.Transient;
//   - about the server, the client's rights or the deployment, such as Unauthorized,
//     NamespaceNotFound or OutdatedClient. An operator can correct these, and no aggregate
//     is the reason. The lanes retry, and aggregates parked for it resume by themselves;
//   - about commands that this package does not send.
//
// The table: https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
// The five-digit codes are in the source of the indexes that raise them.
var rejections = map[int]string{
	2:   "BadValue",
	9:   "FailedToParse",
	10:  "CannotMutateObject",
	14:  "TypeMismatch",
	15:  "Overflow", // nested too deep
	16:  "InvalidLength",
	21:  "EmptyArrayOperation",
	22:  "InvalidBSON",
	28:  "PathNotViable",
	29:  "NonExistentPath",
	30:  "InvalidPath",
	34:  "CannotBackfillArray",
	40:  "ConflictingUpdateOperators",
	52:  "DollarPrefixedFieldName",
	53:  "InvalidIdField",
	54:  "NotSingleValueField",
	55:  "InvalidDBRef",
	56:  "EmptyFieldName",
	57:  "DottedFieldName",
	61:  "ShardKeyNotFound",
	66:  "ImmutableField", // a shard key's field, which a document must keep
	72:  "InvalidOptions",
	111: "NotExactValueField",
	116: "DocTooLargeForCapped",
	121: "DocumentValidationFailure",
	159: "DurationOverflow",
	166: "CommandNotSupportedOnView",
	171: "CannotIndexParallelArrays",
	201: "CannotBuildIndexKeys",
	241: "ConversionFailure",
	283: "WouldChangeOwningShard",
	357: "InvalidBSONType",
	378: "NonConformantBSON",

	10334: "BSONObjectTooLarge",
	13026: "a 2d index takes numbers only",
	13027: "a point is outside of the 2d index",
	13067: "a 2d index cannot read an empty location",
	13068: "a 2d index needs two coordinates",
	13654: "a 2d index cannot read the location",
	16755: "a 2dsphere index cannot read the location",
	16766: "a hashed index takes no arrays",
	16804: "a 2d index cannot read the location",
	17261: "a text index found a language that is not a string",
	17262: "a text index does not know the language",
	17280: "KeyTooLong",
	17419: "the updated document is too large",
	17420: "the document to upsert is too large",
}
