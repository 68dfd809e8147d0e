// Package control serves the faults and the inspection of an sbemu server over HTTP, for
// tests in another process. [NewHandler] is the server's side, [Client] the test's.
//
// Bodies are JSON, and durations are in Go's format ("2ms"). A wrong request is answered
// with 400 or 404 and {"error": "…"}. Entities are named as in connection strings and SDKs:
// "events", "events/Subscriptions/projector". The dead-letter queue of a queue or
// subscription has the suffix "/$DeadLetterQueue".
//
//	GET    /totals?entity=events                accepted, duplicates, scheduled
//	GET    /accepted?entity=events              the recorded messages, in order
//	GET    /counts?entity=events/Subscriptions/projector
//	GET    /sessions?entity=…                   sessions with messages, state or a lock
//	GET    /messages?entity=…&from=0&limit=100  messages in a queue
//	GET    /connections                         open connections, with their entities
//	POST   /faults/latency            {"toServer": "2ms", "toClient": "2ms"}
//	POST   /faults/throttle           {"duration": "5s"} or {"creditsPerSecond": 1000}
//	POST   /faults/refuse-sends       {"entity": "events", "count": 3, "condition": "com.microsoft:server-busy"}
//	POST   /faults/lose-messages      {"entity": "events", "matches": "/3$"}, a regular expression of message ids
//	POST   /faults/expire-messages    {"entity": "events", "matches": "/3$"}
//	POST   /faults/lose-session-lock  {"entity": "events/Subscriptions/projector", "session": "a"}
//	POST   /faults/drop-connections   {"ids": [1]}, {"entity": "events"} or {} for all; answers {"dropped": 1}
//	POST   /faults/detach-links       {"entity": "…", "condition": "amqp:link:detach-forced"}
//	DELETE /faults                              ends latency, throttling, refusals and losses
package control
