// Package sbus makes Service Bus clients from configuration, converts messages of the event
// contract to the SDK's messages, and classifies the errors of the SDK. Package sessions,
// below it, receives messages without the SDK.
package sbus
