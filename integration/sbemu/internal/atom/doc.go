// Package atom serves the management API of a namespace: entities as Atom
// entries over HTTP, in the form that SDKs' administration clients use.
//
//	GET    /$namespaceinfo
//	GET    /$Resources/Queues, /$Resources/Topics            with $skip and $top
//	GET    /{topic}/Subscriptions, …/{subscription}/Rules    with $skip and $top
//	PUT    /{queue or topic}, /{topic}/Subscriptions/{subscription}, …/Rules/{rule}
//	GET    and DELETE of the same
//
// A PUT creates an entity. With the header If-Match it updates the entity and
// detaches all links to it, as the service does. A description keeps the client's
// values as text, in the service's order and with the service's defaults. The
// handler parses only the values that the broker needs. It keeps and returns all
// other properties (such as AutoDeleteOnIdle and EnableExpress), but they have no
// effect.
package atom
