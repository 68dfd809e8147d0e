package mongoemu

// SetUser makes a user or changes its password, like createUser and updateUser. After a
// change, the open connections of the user stay authenticated, and new ones need the new
// password. From the first user on, each connection must authenticate.
func (s *Server) SetUser(name, password string) error { return s.users.Set(name, password) }

// DropUser removes a user, like dropUser. The next command of each of its open connections
// fails with Unauthorized.
func (s *Server) DropUser(name string) { s.users.Drop(name) }
