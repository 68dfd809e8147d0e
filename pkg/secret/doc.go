// Package secret has secrets that are not printed, and reads them from files, also when the files
// change. Kubernetes updates the files of a mounted Secret some time after the Secret.
package secret
