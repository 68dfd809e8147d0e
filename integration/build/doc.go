// Package build tests the Makefile, the script for the tests on Azure, the Terraform example,
// and the alerts of the chart over recorded series.
package build
