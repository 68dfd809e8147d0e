// Package mongoemu is a stand-in for MongoDB, for development and tests only. It speaks the
// wire protocol of a single-node replica set on a real port, so the unmodified driver
// connects to it. All data are in memory and, with [Config.DataDir], also in a journal.
//
// It presents itself as MongoDB 7.0 and is strict: an operator, an option or a command that
// it does not support is an error with its name, and is never ignored.
//
// # Covered
//
//   - OP_MSG with document sequences, checksums and moreToCome, and OP_QUERY for
//     the first hello; streaming hello.
//
//   - Collections and indexes: create, drop, dropDatabase, renameCollection,
//     createIndexes (compound, unique, sparse, partial, hidden, TTL, multikey, hashed),
//     listIndexes, dropIndexes, collMod, listCollections, listDatabases. Lookups by
//     _id and by index do not scan; a sort that an index has is not sorted again. A
//     partial index serves only the queries that ask for a part of its documents.
//
//   - Validators with their levels and actions, $jsonSchema among the conditions. The
//     details of a refusal name the document, not the condition.
//
//   - Collations of collections, indexes and commands: the strengths 1 to 3 and
//     numericOrdering, by the Unicode tables of golang.org/x/text. They differ from
//     ICU's 57.1 in rare characters.
//
//   - insert, update, delete, findAndModify, find, getMore, killCursors, count,
//     distinct, aggregate, explain of find.
//
//   - Query operators: $eq $ne $gt $gte $lt $lte $in $nin $exists $type $size
//     $all $elemMatch $mod $regex $not $and $or $nor $expr, in BSON comparison
//     order, through arrays and dotted paths.
//
//   - Updates: $set $unset $inc $min $max $setOnInsert $currentDate $push ($each $slice
//     $position $sort); replacements; pipelines of $set $addFields $unset $project
//     $replaceRoot $replaceWith; upserts.
//
//   - Aggregation: $match $project $addFields $set $unset $replaceRoot
//     $replaceWith $sort $limit $skip $group $sample; the accumulators $sum $min $max
//     $push $addToSet $count; the expressions $literal $and $or $not $eq $ne $gt $gte $lt
//     $lte $cond $ifNull $add $subtract $in $type $bsonSize $max $min $sum.
//
//   - Change streams on a collection, a database or all: $match, $project and
//     the like; resumeAfter, startAfter, startAtOperationTime; updateLookup;
//     invalidation; post-batch tokens that advance while idle; a bounded oplog,
//     whose lost history is error 286. local.oplog.rs can be read in natural
//     order, and its size by collStats.
//
//   - Sessions, retryable writes by statement, transactions: snapshot reads,
//     write conflicts, a lifetime, repeatable commit. Cluster and operation times
//     only move forward. Error labels as the server gives them.
//
//   - With [Config.Sharded], a mongos in front of one shard: its hello, the recovery
//     token of its transactions, and neither replSetGetStatus nor the database local.
//     shardCollection by ascending and hashed keys, with unique, collation and
//     numInitialChunks; unique indexes only where the shard key is their prefix
//     (CannotCreateIndex, InvalidOptions); zones; renames, which take key and zones
//     along and are refused over a collection with zones. The collections
//     config.collections, config.tags and config.shards show it, in natural order.
//     There are no chunks: the one shard has all documents.
//
//   - With [Config.Users], authentication by SCRAM-SHA-256. [Server.SetUser] and
//     [Server.DropUser] change passwords and users while clients are connected. Every
//     user may do everything.
//
// # Not covered
//
// Statistics of a database (dbStats) and commands for all sessions (killAllSessions,
// refreshSessions); roles, other mechanisms, speculative authentication, TLS, compression,
// several shards and secondaries; capped collections, views, time series; renames from one
// database to another; text, geo and wildcard indexes; queries by a hashed index; other
// options of a collation, and under one the operators that would compare strings in arrays
// or for a minimum or maximum ($addToSet, $min, $max); the update operators $mul, $rename,
// $addToSet, $pull, $pullAll, $pop and $bit; positional update paths ($, $[], $[x]) and array
// filters; the stages $unwind, $count, $sortByCount, $lookup, $facet, $out, $merge and others;
// projection operators ($slice, $elemMatch, positional); JavaScript; pre-images, split and
// expanded change events; snapshot reads outside transactions; arithmetic on Decimal128.
// Regular expressions are Go's, without look-around and back-references.
//
// # Different from a real server
//
// If the replies recorded from a real server (before 4.4) and those of 7.0 differ in a way
// that drivers do not notice, mongoemu follows the record: listIndexes shows ns, an
// updateDescription has no truncatedArrays, and dropping something that does not exist is
// an error. Changes of one multi-document update are not interleaved with other writes. Reads
// outside transactions take locks, as they do on servers with disableLockFreeReads. Inside
// a transaction, only the first insert makes a collection, not create or createIndexes.
// The results of retryable writes are lost with the process. Resume tokens look like the
// server's but have other contents.
//
// # Faults
//
// Any client can make commands fail with configureFailPoint, like the tests of drivers. The
// only fail point is failCommand.
//
// Tests can inject failing commands, failing writes of single documents, lost replies,
// latency, dropped connections, interrupted change streams, killed cursors, a truncated
// oplog, and failovers that roll back what no majority has, with the methods of [Server].
package mongoemu
