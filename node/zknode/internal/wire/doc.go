// Package wire has the messages of ZooKeeper's protocol that fenlock sends and
// receives, as bytes, without I/O. What a server sends is not trusted: each length is
// checked against what is there before anything is allocated for it.
package wire
