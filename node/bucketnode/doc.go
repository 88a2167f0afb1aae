// Package bucketnode is a node in an object store.
package bucketnode
