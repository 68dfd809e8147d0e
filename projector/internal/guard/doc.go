// Package guard decides whether an event or the rule that reads it is wrong, if it fails.
//
// A rule is one handler of a projection ([Rules]), or the reading of messages ([Reading]).
// If few of its events fail, the events are wrong: their aggregates are parked, or their
// messages dead-lettered, and an operator looks at them. If most of its events fail, the
// rule is wrong, and it will be corrected. What has failed must then continue by itself.
// Both cases concern only what has failed: an event that its rule can apply is applied.
//
//	                           a handler                       the reading of messages
//
//	succeeds for others        parked permanently              dead-lettered
//	fails for too many         parked as "rule", resumes       dead-lettered
//	succeeds for none          parked as "rule", resumes       stays in the subscription
//	  … few have failed        as if it succeeded for others, after HoldTime
//
// A handler fails for too many events if these are more than PENSTOCK_FAILURE_LIMIT of its
// last 1,000. It succeeds for none if more than ten events have failed and none has succeeded.
// For the reading of messages, the last 1,000 messages count. A message that stays in the
// subscription keeps its session only briefly, so the sessions take turns. The first event
// ends this. Only a process that has not read any event is not ready.
//
// A corrected definition is a new generation, with its own markers. Otherwise an aggregate
// that is parked as "rule" is retried at growing intervals, up to an hour. If the rule works
// meanwhile, its marker gets its own reason and waits for an operator. An event that has
// parked its aggregate before does not count again.
//
// Messages are not judged by sender or type, because a message proves neither. So nobody who
// may send messages can make the projector hold back messages of others.
package guard
