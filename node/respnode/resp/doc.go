// Package resp is what an engine for Valkey and Redis does with any client library: Commands, their
// Replies, and the Link that carries them. The name is that of the protocol.
package resp
