package natsnode

import (
	"crypto/x509"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node/engine"
)

// rights are what a user needs.
const rights = "the user needs the permissions of node/natsnode/README.md"

// runMigrate is what to do about a bucket that is not there.
const runMigrate = "run fenlock migrate, once, by the same URL with replicas=1, 3 or 5 and sync_interval=always"

// Codes of the server that the client library has no name for.
const (
	codeResources       jetstream.ErrorCode = 10002
	codeNoPeers         jetstream.ErrorCode = 10005
	codeNoLeader        jetstream.ErrorCode = 10008
	codeNoSpace         jetstream.ErrorCode = 10023
	codeStorage         jetstream.ErrorCode = 10047
	codeReplicas        jetstream.ErrorCode = 10074
	codeStoreFailed     jetstream.ErrorCode = 10077
	codeMaxBytesNeeded  jetstream.ErrorCode = 10113
	codeNotEnabledFor   jetstream.ErrorCode = 10035
	codeMaximumStreams  jetstream.ErrorCode = 10027
	codeStreamIsOffline jetstream.ErrorCode = 10118
)

// codeOf returns the number of an error of JetStream, 0 if it is none.
func codeOf(err error) jetstream.ErrorCode {
	var api jetstream.JetStreamError
	if errors.As(err, &api) && api.APIError() != nil {
		return api.APIError().ErrorCode
	}
	return 0
}

// full reports whether a write was refused for want of room.
func full(err error) bool {
	switch codeOf(err) {
	case codeResources, codeNoSpace, codeStorage:
		return true
	case codeStoreFailed:
		return strings.Contains(err.Error(), "maximum")
	}
	return false
}

// advice says what an error means and what a person can do about it, and whether waiting does not
// help.
func advice(err error) (text string, permanent bool) {
	switch codeOf(err) {
	case jetstream.JSErrCodeStreamNotFound:
		return "there is no such bucket: correct the URL, or " + runMigrate, true
	case jetstream.JSErrCodeStreamNameInUse:
		return "a bucket of this name with other settings is there: choose another name", true
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount, codeNotEnabledFor:
		return "turn on JetStream on the server (nats-server -js), and for the user's account", true
	case codeNoPeers, codeReplicas:
		return "the cluster has fewer servers with JetStream than the bucket wants: correct replicas in the URL", true
	case codeMaxBytesNeeded:
		return "the account wants a limit on the bucket: add max_bytes to what fenlock migrate --dry-run prints, " +
				"and pass that to nats stream add --config",
			true
	case codeMaximumStreams:
		return "the account has as many streams as it may", true
	case codeNoLeader, codeStreamIsOffline:
		return "most servers of the bucket are down: start them", false
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return "raise max_payload of the servers to 1 MiB", true
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case full(err):
		return "the bucket, the account or the disk is full: raise max_bytes or the account's limit, or free some space", false
	case errors.Is(err, nats.ErrMaxPayload):
		return "raise max_payload of the servers to 1 MiB", true
	case errors.Is(err, nats.ErrPermissionViolation):
		return rights, true
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		return "the server refuses the user, the password, the token or the creds of the URL", true
	case errors.Is(err, nats.ErrMaxConnectionsExceeded), errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
		return "raise max_connections of the server or the account", false
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server has no TLS: turn it on there, or say tls=off if the network is trusted", true
	case errors.As(err, &unknown):
		return "the certificate's authority is not known: name its file with the parameter ca", true
	case errors.As(err, &name):
		return "the certificate is for another host: correct the URL, or name what it is for with the parameter servername",
			true
	case err != nil && (strings.Contains(err.Error(), "tls: certificate required") ||
		strings.Contains(err.Error(), "connection closed by remote after TLS handshake")):
		return "does the server want a certificate of the client? Name it with the parameters cert and key", false
	case errors.Is(err, nats.ErrNoInfoReceived):
		return "another kind of server listens there: correct the port", true
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "turn on JetStream on the server (nats-server -js), and for the user's account", true
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return "the bucket is not there, or most of its servers are down", false
	case errors.Is(err, nats.ErrNoResponders):
		return "no JetStream answers: turn it on at the server (nats-server -js) and for the account, or start most of the cluster's servers",
			false
	case errors.Is(err, nats.ErrTimeout) && !errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded):
		return "it takes the connection and does not begin as NATS does: is the port right, and does the server stand still?", false
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, io.EOF):
		return "the connection has ended", false
	}
	return "", false
}

// explained says what can be done about an error, and has it match node.ErrMisconfigured if waiting
// does not help.
func explained(err error) error {
	text, permanent := advice(err)
	return engine.Explain(err, text, permanent)
}
