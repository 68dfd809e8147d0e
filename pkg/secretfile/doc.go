// Package secretfile reads secrets from files, and reads them again when they change.
// Kubernetes updates the files of a mounted Secret some time after the Secret.
package secretfile
