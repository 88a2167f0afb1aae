// Package resp is what an engine for Valkey and Redis has to do with a client library,
// whichever it is: Commands, their Replies, and the Link that carries them. The name is
// that of the protocol.
package resp
