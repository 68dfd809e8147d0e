package sbus_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

const emulator = "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=s3cret==;UseDevelopmentEmulator=true"

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config sbus.Config
		want   []string
	}{
		"connection string":           {sbus.Config{ConnectionString: emulator, Topic: "t"}, nil},
		"namespace":                   {sbus.Config{Namespace: "orders.servicebus.windows.net", Topic: "t"}, nil},
		"nothing":                     {sbus.Config{}, []string{"AZURE_SERVICEBUS_CONNECTION_STRING is not set", "AZURE_SERVICEBUS_TOPIC_NAME is not set"}},
		"both":                        {sbus.Config{ConnectionString: emulator, Namespace: "n", Topic: "t"}, []string{"AZURE_SERVICEBUS_NAMESPACE is set beside"}},
		"malformed":                   {sbus.Config{ConnectionString: "SharedAccessKey=s3cret", Topic: "t"}, []string{"AZURE_SERVICEBUS_CONNECTION_STRING is not a connection string"}},
		"no pairs":                    {sbus.Config{ConnectionString: "s3cret", Topic: "t"}, []string{"AZURE_SERVICEBUS_CONNECTION_STRING is not a connection string"}},
		"namespace with port":         {sbus.Config{Namespace: "sb://n:5671/", Topic: "t"}, []string{"AZURE_SERVICEBUS_NAMESPACE is"}},
		"namespace with a line break": {sbus.Config{Namespace: "orders\n", Topic: "t"}, []string{"AZURE_SERVICEBUS_NAMESPACE is"}},
		"topic with a line break":     {sbus.Config{Namespace: "orders", Topic: "t\n"}, []string{"AZURE_SERVICEBUS_TOPIC_NAME is"}},
		"two connection strings":      {sbus.Config{ConnectionString: "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=s3cret=\nEndpoint=sb://other/;SharedAccessKeyName=n;SharedAccessKey=s3cret=", Topic: "t"}, []string{"AZURE_SERVICEBUS_CONNECTION_STRING has a line break"}},
		"of another entity":           {sbus.Config{ConnectionString: emulator + ";EntityPath=other", Topic: "t"}, []string{`is for another entity than the topic "t"`}},
		"of this entity":              {sbus.Config{ConnectionString: emulator + ";EntityPath=t", Topic: "t"}, nil},
		"of an entity in case":        {sbus.Config{ConnectionString: emulator + ";entitypath=T", Topic: "t"}, nil},
	} {
		err := c.config.Check()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if err == nil {
			continue
		}
		if strings.Count(err.Error(), "\n") != len(c.want)-1 || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
	}
}

func TestNewClient(t *testing.T) {
	t.Parallel()
	for _, c := range []sbus.Config{{ConnectionString: emulator}, {Namespace: "orders"}} {
		namespace, err := sbus.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		client, err := namespace.NewClient()
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	malformed, err := sbus.Open(sbus.Config{ConnectionString: "SharedAccessKey=s3cret;x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := malformed.NewClient(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("malformed: %v", err)
	}
	if _, err := malformed.Topic(t.Context(), "events"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("malformed: %v", err)
	}
	nothing, err := sbus.Open(sbus.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nothing.NewClient(); err == nil {
		t.Error("nothing: made a client")
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]sbus.Config{
		"127.0.0.1:5672":                {ConnectionString: emulator},
		"orders.servicebus.windows.net": {Namespace: "orders"},
		"orders.example.org":            {Namespace: "orders.example.org"},
		"":                              {ConnectionString: "Endpoint=%zz"},
	} {
		if got := c.Host(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
