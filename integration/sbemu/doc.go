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
//     tokens (not checked, no one could).
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
//     they had some, and unused links are detached after 10.
//   - Throttling with error code 50009, ordered or by credits per second.
//   - Faults ([Server.SetLatency] and the methods beside it) and inspection
//     ([Server.Accepted] and those beside it), over HTTP too: package control.
//
// # What is not
//
// Transactions; the functions of SQL rules, and their actions on system
// properties; automatic deletion when idle; changes of an entity's forwarding;
// quotas on the size of entities and session states and on the number of
// connections and of pending receives; a token is checked when a link attaches,
// and its end detaches none; disaster recovery, capture, authorization rules of single
// entities, and all else that is management of the namespace only.
//
// # What is assumed
//
// Not verified against Azure: that a batch of one session is refused by a
// partitioned topic with duplicate detection; the conditions of ids that are
// too long (com.microsoft:argument-error) and of a PartitionKey that is not
// the SessionId (amqp:not-allowed); that a message without a session is
// dead-lettered by a subscription that requires one; that a peek by a link that
// has lost its session is refused; that a dead-lettered message keeps its sequence number, and may have a description longer than the
// 4,096 characters that other SDKs allow; that a subscription without declared
// rules costs the credit of one filter.
//
// # How it works
//
// internal/wire is the codec, internal/message reads and stamps messages
// without decoding them, internal/broker keeps them (it draws the states of
// messages and sessions), internal/filter selects them, and internal/front
// serves it all as AMQP.
package sbemu
