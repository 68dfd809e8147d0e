package mongox

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// serverSelectionTimeout bounds how long an operation waits for a primary. An election
// takes some seconds. The driver's default of 30 s is longer than a lease.
const serverSelectionTimeout = 10 * time.Second

// Options configure a client. The zero value is valid.
type Options struct {
	// AppName shows in the server's logs and currentOp.
	AppName string
	// MaxPoolSize bounds the connections to each server, and overrides the URI's minPoolSize
	// too; 0 means the URI's value, or the driver's 100.
	MaxPoolSize uint64
	// Monitor receives every command; nil for none.
	Monitor *event.CommandMonitor
	// Dialer opens the connections; nil means TCP.
	Dialer options.ContextDialer
	// File is the file of the connection string; empty if it comes from elsewhere. rotation
	// follows it if both are set. Clients of one file have the same Dialer.
	File     string
	rotation *rotation
	// Logger receives what rotation finds in a changed File, and errors of closing the client.
	Logger zerolog.Logger
}

// Open makes a client without a network request. Its first request connects, and waits for
// a primary for 10 s, or for the URI's own server-selection timeout. The caller disconnects
// the client. Errors do not show the password in uri.
//
// Whatever the URI says, reads go to the primary, reads and writes need a majority, and the
// driver retries each once. Otherwise a new primary could lose a watermark or a checkpoint
// that has acknowledged an event. timeoutMS has no effect, because the driver treats it
// like a deadline: see [Timeout]. Options that cannot be supported are an error.
// docs/mongodb.md lists the options that have no effect.
func Open(uri string, opts Options) (*mongo.Client, error) {
	o, err := clientOptions(uri, opts)
	if err != nil {
		return nil, fmt.Errorf("read MongoDB connection string: %w", err)
	}
	if opts.File != "" && opts.rotation != nil {
		opts.rotation.follow(o, uri, opts.File, opts.Logger)
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("open MongoDB client of %s: %w", Redact(uri), sanitize(err, uri))
	}
	return client, nil
}

// minPoolSize is the least number of connections with which a process works well. The
// change stream occupies one during its waits. Lease renewals, saves, writes and /readyz
// would queue behind it.
const minPoolSize = 10

func clientOptions(uri string, opts Options) (*options.ClientOptions, error) {
	if strings.ContainsFunc(uri, unicode.IsControl) {
		return nil, errControl
	}
	o := options.Client().
		SetServerSelectionTimeout(serverSelectionTimeout).
		ApplyURI(uri).
		SetWriteConcern(writeconcern.Majority()).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetRetryWrites(true).
		SetRetryReads(true)
	o.Timeout = nil
	if o.ConnectTimeout != nil && *o.ConnectTimeout == 0 {
		o.ConnectTimeout = nil
	}
	if o.ServerSelectionTimeout != nil && *o.ServerSelectionTimeout == 0 {
		o.SetServerSelectionTimeout(serverSelectionTimeout)
	}
	if opts.Monitor != nil {
		o.SetMonitor(opts.Monitor)
	}
	if opts.Dialer != nil {
		o.SetDialer(opts.Dialer)
	}
	if opts.AppName != "" {
		o.SetAppName(opts.AppName)
	}
	small := o.MaxPoolSize != nil && *o.MaxPoolSize > 0 && *o.MaxPoolSize < minPoolSize
	if opts.MaxPoolSize > 0 {
		o.SetMaxPoolSize(opts.MaxPoolSize)
		o.MinPoolSize = nil
	}
	if err := o.Validate(); err != nil {
		return nil, sanitize(err, uri)
	}
	if small {
		return nil, fmt.Errorf("%w: maxPoolSize: use at least %d, or leave it out", errOption, minPoolSize)
	}
	if o.LoadBalanced != nil && *o.LoadBalanced { // a DNS record of a mongodb+srv host can set it too
		return nil, fmt.Errorf("%w: loadBalanced: name the servers themselves", errOption)
	}
	if err := checkHosts(o.Hosts); err != nil {
		return nil, sanitize(err, uri)
	}
	return o, nil
}

// errControl says that a connection string has a control character. Files with two lines are
// the usual reason. The driver's own error would show a part of the second line.
var errControl = errors.New("a line break or another control character is inside: write one connection string, in one line")

// errOption says that an option of a connection string is not supported.
var errOption = errors.New("unsupported option")

// sanitized is an error without the secrets of a connection string.
type sanitized struct {
	text string
	err  error
}

func (s *sanitized) Error() string { return s.text }
func (s *sanitized) Unwrap() error { return s.err }

// sanitize replaces the secrets of uri in the text of err.
func sanitize(err error, uri string) error {
	text := err.Error()
	clean := conceal(text, uri)
	if clean == text {
		return err
	}
	return &sanitized{text: clean, err: err}
}
