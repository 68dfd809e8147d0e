// Package obs makes the logger, the metrics registry and the metrics handler of a process,
// and redirects client-go's klog to the logger.
package obs
