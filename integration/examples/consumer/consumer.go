// Package consumer holds an example in JavaScript of a service that reads the topic. The
// conformance command runs it against the stand-in.
package consumer

import _ "embed"

// Source is the program, consumer.mjs.
//
//go:embed consumer.mjs
var Source []byte
