// Package sbemu is a stand-in for Azure Service Bus, for development and tests only: an
// AMQP 1.0 server in pure Go, in memory. Unmodified SDKs connect to it; its connection
// string sets UseDevelopmentEmulator, so they use plain AMQP. Nothing is durable, and the
// server is a single process.
//
//	srv, err := sbemu.New(sbemu.Default())
//	err = srv.Start()
//	client, err := azservicebus.NewClientFromConnectionString(srv.ConnectionString(), nil)
//
// If the service refuses a request, sbemu refuses it with the same error condition. The
// known behaviour of the service comes from its documentation, from reports of its users,
// and from the SDKs' own live tests. Uncertain behaviour is listed below.
//
// # What is covered
//
//   - SASL ANONYMOUS, PLAIN and EXTERNAL; $cbs with shared access signatures
//     (checked: key, expiry, audience, rights to listen and send) and JSON web
//     tokens (not checked, because a stand-in has no issuer's keys; they expire when the
//     client says). Links whose token has expired are detached.
//   - Topics, subscriptions and queues: in-order delivery, peek-lock and
//     receive-and-delete, several receivers in turn, credit and session
//     windows, drain.
//   - Sessions: accept by id or next available (with the client's timeout),
//     exclusive locks, renewal, expiry, takeover, state, listing; released on
//     detach, end, close and a broken connection.
//   - Settlement over the link and over $management: complete, abandon, defer
//     and dead-letter, with changes to application properties, and release;
//     delivery counts, which release and the end of a session do not raise;
//     the maximum delivery count; dead-letter queues, which do not count.
//   - $management: renew-lock, renew-session-lock, get- and set-session-state,
//     update-disposition, receive-by-sequence-number, peek-message,
//     schedule-message, cancel-scheduled-message, get-message-sessions.
//   - Batches (message format 0x80013700), all or nothing, up to 4,500
//     messages; maximum message and batch size; ids of up to 128 characters;
//     application properties of up to 32 kB, 64 kB together, and not binary;
//     SessionId = PartitionKey; duplicate detection by message id, and by
//     partition key too where partitioned; scheduled messages; time to live.
//   - Partitioned entities: 16 partitions, numbered in the upper 16 bits of
//     sequence numbers; a batch of one key only, none with duplicate detection.
//   - Rules on subscriptions: correlation and SQL (see [Rule]), and SQL actions
//     on application properties through the management API.
//   - Forwarding of messages and of dead letters, up to 4 hops.
//   - TLS, AMQP over WebSockets, and the management API over HTTPS (entities and
//     rules: create, update, which detaches links, list, delete; [TLS]).
//   - Shared access policies with two keys, which can be regenerated
//     ([Server.RegenerateKey]).
//   - Idleness: connections without links are closed after 1 minute, or 5 if
//     they had some, and unused links are detached after 10 (a link to a management node, too;
//     the link of its replies stays).
//   - Throttling with error code 50009, while a test demands it.
//   - Faults ([Server.SetLatency] and the methods beside it) and inspection
//     ([Server.Accepted] and those beside it).
//
// # What is not
//
//   - Transactions.
//   - The functions of SQL rules, and their actions on system properties.
//   - Automatic deletion of idle entities, and changes of an entity's forwarding.
//   - Quotas on the size of entities and session states, and on the number of connections
//     and pending receives.
//   - Disaster recovery, capture, authorization rules of single entities, and all other
//     operations that only manage the namespace.
//
// # What is assumed
//
// These assumptions are not verified against Azure:
//
//   - A partitioned topic with duplicate detection refuses a batch of one session.
//   - An id that is too long is refused with com.microsoft:argument-error, and a
//     PartitionKey that differs from the SessionId with amqp:not-allowed.
//   - A subscription that requires sessions dead-letters a message without a session.
//   - A peek by a link that has lost its session is refused.
//   - A dead-lettered message keeps its sequence number. Its description can be longer than
//     the 4,096 characters that other SDKs allow.
//
// # How it works
//
// internal/wire is the codec. internal/message reads and stamps messages without
// decoding them. internal/broker keeps messages; its documentation has diagrams of the
// states of messages and sessions. internal/filter selects messages for subscriptions.
// internal/front serves the broker over AMQP, internal/atom serves the management API, and
// internal/access checks tokens.
package sbemu
