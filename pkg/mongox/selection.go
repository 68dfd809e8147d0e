package mongox

import (
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// unselected is an error in which the driver's dump of its topology is replaced by what an
// operator needs.
type unselected struct {
	text string
	err  error
}

func (u *unselected) Error() string { return u.text }
func (u *unselected) Unwrap() error { return u.err }

// withoutTopology returns err with a text that names each server and its last error, if err
// says that the driver found no server for a request. Other errors are returned unchanged.
func withoutTopology(err error) error {
	selection, ok := errors.AsType[topology.ServerSelectionError](err)
	if !ok {
		return err
	}
	text := err.Error()
	plain := strings.ReplaceAll(text, selection.Error(), serversOf(selection.Desc))
	if plain == text {
		return err
	}
	return &unselected{text: plain, err: err}
}

// serversOf says why none of the servers takes a request.
func serversOf(t description.Topology) string {
	if t.CompatibilityErr != nil {
		return t.CompatibilityErr.Error()
	}
	var servers []string
	for _, s := range t.Servers {
		switch {
		case s.LastError == nil && s.Kind == description.Unknown:
			servers = append(servers, s.Addr.String()+" has not answered")
		case s.LastError == nil:
			servers = append(servers, s.Addr.String()+" is "+s.Kind.String())
		case strings.Contains(s.LastError.Error(), s.Addr.String()):
			servers = append(servers, s.LastError.Error())
		default:
			servers = append(servers, s.Addr.String()+": "+s.LastError.Error())
		}
	}
	if len(servers) == 0 {
		// The driver drops servers that are not members of the set that the string names.
		return "no server is known: no host of the connection string is a member of the replica set that its option replicaSet names; correct that name, or the hosts"
	}
	return "no primary was found: " + strings.Join(servers, "; ")
}
