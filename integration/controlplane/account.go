package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is how long a service account's token is valid, in seconds.
const tokenLife = int64(validity / time.Second)

// Account is a service account with a token.
type Account struct {
	Namespace, Name, Token string
}

// ServiceAccount makes a service account with the rights of rules in its own namespace, and
// otherwise only the rights of every account. It makes the namespace if that does not
// exist.
func (c *ControlPlane) ServiceAccount(
	ctx context.Context, namespace, name string, rules ...rbacv1.PolicyRule,
) (Account, error) {
	account := Account{Namespace: namespace, Name: name}
	core, err := corev1client.NewForConfig(c.client)
	if err != nil {
		return account, fmt.Errorf("make a client: %w", err)
	}
	rbac, err := rbacv1client.NewForConfig(c.client)
	if err != nil {
		return account, fmt.Errorf("make a client: %w", err)
	}
	_, err = core.Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return account, fmt.Errorf("create the namespace %s: %w", namespace, err)
	}
	meta := metav1.ObjectMeta{Name: name}
	if _, err = core.ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return account, fmt.Errorf("create the service account %s: %w", name, err)
	}
	if _, err = rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		return account, fmt.Errorf("create the role %s: %w", name, err)
	}
	_, err = rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return account, fmt.Errorf("bind the role %s: %w", name, err)
	}
	life := tokenLife
	issued, err := core.ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return account, fmt.Errorf("issue a token to %s: %w", name, err)
	}
	account.Token = issued.Status.Token
	return account, nil
}

// Client returns the configuration of a client with the account's rights.
func (c *ControlPlane) Client(account Account) *rest.Config {
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.cluster.path()},
		BearerToken:     account.Token,
		QPS:             -1,
	}
}

// WriteKubeconfig writes a kubeconfig with which a process acts as that account, in its
// namespace.
func (c *ControlPlane) WriteKubeconfig(path string, account Account) error {
	return c.writeKubeconfig(path, account.Namespace, &clientcmdapi.AuthInfo{Token: account.Token})
}

// Component is the identity of a program of the cluster, as files.
type Component struct {
	// Certificate and Key are for a client and a server, signed by Authority. Kubeconfig is
	// for a client of the API server.
	Certificate, Key, Authority, Kubeconfig string
}

// Component makes the identity of a program: a user in those groups, which may listen on
// the loopback interface and at hosts, which are IP addresses or names.
func (c *ControlPlane) Component(name, user string, hosts []string, groups ...string) (Component, error) {
	files, err := c.cluster.issueFor(hosts, name, user, groups...)
	if err != nil {
		return Component{}, err
	}
	kubeconfig, err := c.kubeconfigFile(name, files)
	return Component{
		Certificate: files.certificate, Key: files.key, Authority: c.cluster.path(), Kubeconfig: kubeconfig,
	}, err
}

// componentKubeconfig writes the kubeconfig of a component with a built-in user, whose
// rights the API server knows.
func (c *ControlPlane) componentKubeconfig(name string) (string, error) {
	client, err := c.cluster.issue(name, "system:"+name)
	if err != nil {
		return "", err
	}
	return c.kubeconfigFile(name, client)
}

// kubeconfigFile writes <name>.kubeconfig for the owner of a certificate.
func (c *ControlPlane) kubeconfigFile(name string, client pair) (string, error) {
	path := filepath.Join(c.opts.Dir, name+".kubeconfig")
	return path, c.writeKubeconfig(path, metav1.NamespaceDefault,
		&clientcmdapi.AuthInfo{ClientCertificate: client.certificate, ClientKey: client.key})
}

func (c *ControlPlane) writeKubeconfig(path, namespace string, user *clientcmdapi.AuthInfo) error {
	const name = "penstock"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthority: c.cluster.path()}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write the kubeconfig %s: %w", path, err)
	}
	return nil
}
