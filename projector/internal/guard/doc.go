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
// Messages are not judged by sender or type, because a message proves neither. So nobody who
// may send messages can make the projector hold back messages of others.
package guard
