// Package obs makes the logger, the metrics registry and the handler of the metrics that
// a process hands to its parts, and bridges client-go's klog into the logger.
package obs
