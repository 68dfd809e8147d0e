package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/inventory"
)

func TestTopicWithoutReadableSizeIsReportedAsRefused(t *testing.T) {
	t.Parallel()
	namespace, err := sbus.Open(sbus.Config{ConnectionString: "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (topicFill{namespace, "events"}).Fill(t.Context()); !errors.Is(err, inventory.ErrRefused) {
		t.Errorf("the emulator's topic gives %v", err)
	}
	for status, want := range map[int]bool{
		http.StatusUnauthorized: true, http.StatusForbidden: true,
		http.StatusNotFound: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
	} {
		answer := runtime.NewResponseError(&http.Response{
			StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("<Error/>")),
			Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "shop.servicebus.windows.net"}},
		})
		if got := refused(answer); errors.Is(got, inventory.ErrRefused) != want || strings.Contains(got.Error(), "<Error/>") {
			t.Errorf("status %d gives %q", status, got)
		}
	}
}

func TestBackgroundLoopEndsWhenStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		stop := beside(t.Context(), func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		})
		stop()
		if !ended {
			t.Error("stop has not waited for the loop's end")
		}
	})
}
