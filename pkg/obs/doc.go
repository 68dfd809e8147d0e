// Package obs makes the logger and the metrics registry that a process hands to
// its parts, and bridges client-go's klog into the logger.
package obs
