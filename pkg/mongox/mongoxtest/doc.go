// Package mongoxtest lets a test hold the real driver against replies of its own: what
// a command looks like on the wire, and what the driver makes of an answer. What a
// server does is not its matter. It stands on the driver's own tools for that, of its
// tree x.
package mongoxtest
