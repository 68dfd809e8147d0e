// Package sbemutest runs sbemu, the stand-in for Azure Service Bus, for a test.
package sbemutest
