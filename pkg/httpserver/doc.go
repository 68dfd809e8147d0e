// Package httpserver makes HTTP servers for ports without authentication. Whoever reaches
// such a port must not be able to exhaust the memory of the process or to keep others from
// their answers. So the number of connections, the size of a request's header, and the time
// to send a request and to take its answer are bounded.
package httpserver
