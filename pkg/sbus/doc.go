// Package sbus builds Service Bus clients from configuration, turns messages of
// the event contract into the SDK's, and says what a failed call of the
// SDK means for its caller. Package sessions, below it, receives without the SDK.
package sbus
