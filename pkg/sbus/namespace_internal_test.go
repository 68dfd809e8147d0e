package sbus

import (
	"context"
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

type noToken struct{}

func (noToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, errors.New("no token")
}

func TestClientsOfANamespaceShareOneCredential(t *testing.T) {
	t.Parallel()
	made := 0
	newCredential := func() (azcore.TokenCredential, error) {
		made++
		return noToken{}, nil
	}
	n, err := open(Config{Namespace: "orders"}, newCredential)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		client, err := n.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := n.administer(func(*admin.Client) error { return nil }); err != nil {
		t.Error(err)
	}
	if made != 1 {
		t.Errorf("made %d credentials, want one for all clients", made)
	}
	if _, err := open(Config{ConnectionString: "x"}, newCredential); err != nil || made != 1 {
		t.Errorf("a connection string needs no credential: made %d: %v", made, err)
	}
}
