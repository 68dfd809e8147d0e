package sbemu_test

import (
	"context"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func Example() {
	namespace, err := sbemu.New(sbemu.Config{Queues: []sbemu.Queue{{Name: "orders"}}})
	if err != nil {
		log.Fatal(err)
	}

	if err := namespace.Start(); err != nil {
		log.Fatal(err)
	}
	defer namespace.Close()

	ctx := context.Background()

	client, err := azservicebus.NewClientFromConnectionString(namespace.ConnectionString(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	sender, err := client.NewSender("orders", nil)
	if err != nil {
		log.Fatal(err)
	}

	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("order 4711")}, nil); err != nil {
		log.Fatal(err)
	}

	receiver, err := client.NewReceiverForQueue("orders", nil)
	if err != nil {
		log.Fatal(err)
	}

	messages, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Printf("%s\n", messages[0].Body)

	if err := receiver.CompleteMessage(ctx, messages[0], nil); err != nil {
		log.Fatal(err)
	}
	// Output: order 4711
}
