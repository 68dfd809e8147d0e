package sbus

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

func TestPropertiesOfTheEmulatorAreNotRead(t *testing.T) {
	t.Parallel()
	namespace, err := Open(Config{ConnectionString: "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespace.Topic(t.Context(), "events"); !errors.Is(err, ErrUnreadable) || !errors.Is(err, errNoAdministration) {
		t.Errorf("the emulator's topic gives %v", err)
	}
}

// A refusal of the namespace has a page of XML as its body, which must not go to the log.
func TestAnswersOfTheNamespaceAreExplainedWithoutTheirBody(t *testing.T) {
	t.Parallel()
	for status, unreadable := range map[int]bool{
		http.StatusUnauthorized: true, http.StatusForbidden: true,
		http.StatusNotFound: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
	} {
		answer := runtime.NewResponseError(&http.Response{
			StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("<Error><Code>401</Code></Error>")),
			Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "shop.servicebus.windows.net"}},
		})
		want := fmt.Sprintf("the namespace answers %d %s", status, http.StatusText(status))
		if unreadable {
			want = "it cannot be read: the credentials do not allow it: " + want
		}
		if got := explainAnswer(fmt.Errorf("get topic: %w", answer)); errors.Is(got, ErrUnreadable) != unreadable || got.Error() != want {
			t.Errorf("status %d gives %q", status, got)
		}
	}
	if other := errors.New("no route to host"); !errors.Is(explainAnswer(other), other) {
		t.Errorf("got %q, want %q", explainAnswer(other), other)
	}
}
