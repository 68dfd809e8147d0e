// Package build tests the Makefile, the Terraform example, the alerts of the chart over recorded
// series, and a table of the docs.
package build
