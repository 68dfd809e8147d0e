package mongox

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Client is the client of a store. What is its purpose in words.
type Client struct {
	*mongo.Client
	What  string
	Store Store
}

// Clients are the clients of a process. Their owner calls Close.
type Clients struct {
	// Options are those of all clients, except for what their stores say.
	Options Options
	// Opened are the clients that For has opened: one for each connection string.
	Opened   []Client
	all      []*mongo.Client
	rotation rotation
}

// For returns the client of a store. Stores with the same connection string share one.
func (c *Clients) For(what string, store Store) (Client, error) {
	for _, opened := range c.Opened {
		if opened.Store.URI == store.URI && opened.Store.File == store.File {
			return Client{opened.Client, what, store}, nil
		}
	}
	o := c.Options
	o.Logger = o.Logger.With().Str("store", what).Logger()
	client, err := c.Open(what, store, o)
	if err == nil {
		c.Opened = append(c.Opened, client)
	}
	return client, err
}

// Open makes a client of a store that no other store shares.
func (c *Clients) Open(what string, store Store, o Options) (Client, error) {
	o.File, o.rotation = store.File, &c.rotation
	client, err := Open(store.URI, o)
	if err != nil {
		return Client{}, fmt.Errorf("%s: %w", what, err)
	}
	c.all = append(c.all, client)
	return Client{client, what, store}, nil
}

// Close closes the clients.
func (c *Clients) Close(ctx context.Context) {
	c.rotation.Stop()
	for _, client := range c.all {
		if err := Disconnect(ctx, client); err != nil {
			c.Options.Logger.Debug().Err(err).Msg("MongoDB client not closed cleanly")
		}
	}
}
