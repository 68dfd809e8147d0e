// Package shop is the sandbox's own workload: users register, list items and place orders.
// Its projections (projections.yaml) use the whole vocabulary. Most of them use counters,
// appends and a delete, which show duplicated and swapped events. Its views show a part that
// is missing, or that is counted twice.
package shop
