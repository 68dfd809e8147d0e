// Package control orders faults of a mongoemu in another process, through its
// control endpoint (see mongoemu.Server.Handler).
package control
