// Package atom serves the management API of a namespace: entities as Atom
// entries over HTTP, as SDKs' administration clients use it.
//
//	GET    /$namespaceinfo
//	GET    /$Resources/Queues, /$Resources/Topics            with $skip and $top
//	GET    /{topic}/Subscriptions, …/{subscription}/Rules    with $skip and $top
//	PUT    /{queue or topic}, /{topic}/Subscriptions/{subscription}, …/Rules/{rule}
//	GET    and DELETE of the same
//
// A PUT creates; with the header If-Match it updates, which detaches all links
// to the entity, as the service does. Descriptions keep what a client put in
// them as text, in the service's order and with its defaults; what the broker
// needs of it is parsed out. Properties without a meaning here (such as
// AutoDeleteOnIdle and EnableExpress) are kept and returned, and do nothing.
package atom
