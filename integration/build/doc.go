// Package build tests the Makefile, the script for the tests on Azure, and the Terraform
// example.
package build
