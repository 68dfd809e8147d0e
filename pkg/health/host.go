package health

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// internalDomains are domains that nobody can register in the public DNS.
var internalDomains = []string{"localhost", "svc", "local", "internal"}

// checkHost refuses requests for a host name of the public DNS that is not in hosts. An
// attacker can let a name of their own point to the address of this process (DNS
// rebinding). A page of theirs, in the browser of a person who can reach the process, would
// otherwise read its answers.
func checkHost(next http.Handler, hosts []string) http.Handler {
	hosts = slices.Clone(hosts)
	for i, host := range hosts {
		hosts[i] = strings.ToLower(strings.TrimSpace(host))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowedHost(r.Host, hosts) {
			answer(w, http.StatusMisdirectedRequest, "this host name is not served; a proxy must use the address of the process, or its name must be in PENSTOCK_ADMIN_HOSTS")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowedHost reports whether a request may have that Host: an address, a name without
// dots, a name in an internal domain, or one of hosts. The port does not matter.
func allowedHost(host string, hosts []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return true
	}
	return slices.Contains(hosts, host) || slices.Contains(internalDomains, host[strings.LastIndexByte(host, '.')+1:])
}
