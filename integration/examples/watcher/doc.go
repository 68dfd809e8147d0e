// Package watcher is an example of a service that shows a read model to browsers and keeps what
// they show up to date: a [Copy] of the collection, and a [Handler] that sends every change of
// it as a server-sent event. docs/watching.md says what a watcher meets when a new generation
// of the read models replaces the old one. Program serve is a whole service.
package watcher
