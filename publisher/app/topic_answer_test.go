package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// A refusal of the namespace has a page of XML as its body, which must not go to the log.
func TestRefusalsOfTheNamespaceAreLoggedWithoutTheirBody(t *testing.T) {
	t.Parallel()
	answer := runtime.NewResponseError(&http.Response{
		Status: "401 Unauthorized", StatusCode: http.StatusUnauthorized, Header: make(http.Header),
		Body:    io.NopCloser(strings.NewReader("<Error><Code>401</Code><Detail>Manage,EntityRead claims</Detail></Error>")),
		Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "shop.servicebus.windows.net", Path: "/events"}},
	})
	if got, want := short(fmt.Errorf("get topic: %w", answer)).Error(), "the namespace answers 401 Unauthorized"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if other := errors.New("no route to host"); !errors.Is(short(other), other) {
		t.Errorf("got %q, want %q", short(other), other)
	}
}
