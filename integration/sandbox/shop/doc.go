// Package shop is the sandbox's own workload: users who register, list items and
// place orders. Its projections (projections.yaml) use the whole vocabulary, and
// most of what they do would show a duplicate or a swap: counters, appends and a
// delete.
package shop
