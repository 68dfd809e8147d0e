package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/xdg-go/scram"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// iterations of a password's hash, the fewest that drivers accept. A real server has 15,000
// by default, which only costs time.
const iterations = 4096

// Users are the users of a server, by name. Every user may do everything. The zero value has
// none. It is safe for concurrent use.
type Users struct {
	mu    sync.Mutex
	users map[string]*user
	// required says that there has been a user: connections must authenticate.
	required bool
}

// user is a user, from its creation until it is dropped. A user that is made again under the
// same name is another one.
type user struct{ credentials scram.StoredCredentials }

// Set makes a user or changes its password. From the first user on, connections must
// authenticate. Connections of a user whose password has changed stay authenticated, as on a
// real server.
func (u *Users) Set(name, password string) error {
	client, err := scram.SHA256.NewClient(name, password, "")
	if err != nil {
		return fmt.Errorf("prepare the password of %s: %w", name, err)
	}
	credentials, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: rand.Text(), Iters: iterations})
	if err != nil {
		return fmt.Errorf("hash the password of %s: %w", name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users == nil {
		u.users = make(map[string]*user)
	}
	if known := u.users[name]; known != nil {
		known.credentials = credentials
	} else {
		u.users[name] = &user{credentials}
	}
	u.required = true
	return nil
}

// Drop removes a user. Its connections are no longer authenticated.
func (u *Users) Drop(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.users, name)
}

// find returns the user with that name and its credentials; nil if there is none.
func (u *Users) find(name string) (*user, scram.StoredCredentials) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if known := u.users[name]; known != nil {
		return known, known.credentials
	}
	return nil, scram.StoredCredentials{}
}

// require returns an error if a connection must authenticate before it runs the command.
func (u *Users) require(r *Request) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.required || r.command.open || r.conn.user != nil && u.users[r.conn.userName] == r.conn.user {
		return nil
	}
	return mongoerr.New(mongoerr.Unauthorized, "Command %s requires authentication", r.Name)
}

// conversation is one authentication of a connection.
type conversation struct {
	*scram.ServerConversation
	user *user
	// skipEmpty says that the client wants no empty exchange at the end.
	skipEmpty bool
}

var errUnknownUser = errors.New("there is no such user")

// converse begins the authentication of a connection.
func (u *Users) converse(skipEmpty bool) (*conversation, error) {
	c := &conversation{skipEmpty: skipEmpty}
	server, err := scram.SHA256.NewServer(func(name string) (scram.StoredCredentials, error) {
		known, credentials := u.find(name)
		if known == nil {
			return credentials, errUnknownUser
		}
		c.user = known
		return credentials, nil
	})
	if err != nil {
		return nil, fmt.Errorf("begin a SCRAM conversation: %w", err)
	}
	c.ServerConversation = server.NewConversation()
	return c, nil
}
