// Package mongoxtest tests the real driver against replies that a test provides. It shows
// which commands the driver sends and how the driver handles an answer. It does not imitate
// a server. It uses the driver's own test tools, from its packages under x.
package mongoxtest
