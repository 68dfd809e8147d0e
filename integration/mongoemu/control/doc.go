// Package control injects faults into a mongoemu in another process, through its control
// endpoint (see mongoemu.Server.Handler).
package control
