// Package obs makes the logger, the metrics registry and the metrics handler of a process,
// redirects client-go's klog to the logger, and has values that expire for gauges.
package obs
