// Package record keeps what simulations have shown: a line of JSON for each run of random
// histories, and one for each mutation that was tried. Both files are part of the repository,
// so that everybody can read them. `make proof` adds to them, and writes docs/proof.md from
// them.
package record
