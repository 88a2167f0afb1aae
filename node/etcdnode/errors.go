package etcdnode

import (
	"context"
	"errors"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errNonsense = errors.New("the answer is none of etcd's") // so whether anything was carried out is not known
	errForeign  = errors.New("a key below the prefix has a value that no fenlock wrote: it was changed by hand, or another program uses the prefix")
)

// verdict is what is known of an error of etcd's, and what to do about it.
type verdict struct {
	err     error // matches, by its text
	advice  string
	mend    bool // waiting does not help
	nothing bool // certainly not carried out
}

// verdicts of what a server says. The codes of gRPC are too coarse.
var verdicts = []verdict{
	{rpctypes.ErrGRPCPermissionDenied,
		"the user lacks the role: readwrite on the node's prefix, docs/etcd.md has the commands", true, true},
	{rpctypes.ErrGRPCUserEmpty, "the cluster wants a user: etcd://user:password@host", true, true},
	{rpctypes.ErrGRPCAuthFailed, "user or password is wrong", true, true},
	{rpctypes.ErrGRPCUserNotFound, "user or password is wrong", true, true},
	{rpctypes.ErrGRPCAuthNotEnabled, "the cluster has no authentication: leave user and password out of the URL", true,
		true},
	{rpctypes.ErrGRPCInvalidAuthToken, "the token has expired, or the cluster has forgotten it; a new token is requested",
		false, true},
	{rpctypes.ErrGRPCAuthOldRevision, "users or roles have just been changed; it is tried again", false, true},
	// A member that finds the database full in the middle carries the transaction out and then says
	// so.
	{rpctypes.ErrGRPCNoSpace, "the database is full: compact and defragment it, raise --quota-backend-bytes, then etcdctl alarm disarm; held locks cannot be extended until then", false, false},
	{rpctypes.ErrGRPCCorrupt, "a member's data is corrupt: see etcd's documentation on data corruption; do not use the cluster until it is mended", true, true},
	{rpctypes.ErrTooManyRequests, "etcd is overloaded: it has more than 5,000 requests that wait for the disk", false,
		true},
	{rpctypes.ErrGRPCRequestTooLarge, "the request is larger than --max-request-bytes: a shorter name helps", true, true},
	{rpctypes.ErrGRPCTooManyOps, "--max-txn-ops is too small: fenlock needs etcd's default of 128", true, true},
	{rpctypes.ErrGRPCNotSupportedForLearner,
		"the URL names a learner: promote it (etcdctl member promote), or name voting members only", true, true},
	{rpctypes.ErrGRPCNoLeader, "the cluster has no leader: fewer than a majority of its members run, or they cannot reach each other", false, false},
	{rpctypes.ErrGRPCTimeout, "etcd has not carried it out in time: a slow disk, or no majority", false, false},
	{rpctypes.ErrGRPCTimeoutDueToLeaderFail, "the leader was lost meanwhile", false, false},
	{rpctypes.ErrGRPCTimeoutDueToConnectionLost, "the member has lost the others", false, false},
	{rpctypes.ErrGRPCLeaderChanged, "the leader has changed meanwhile", false, false},
	{rpctypes.ErrGRPCStopped, "the member is shutting down", false, false},
	{rpctypes.ErrGRPCUnhealthy, "the member is not healthy", false, false},
}

// reasons are why there is no connection, as gRPC tells: in words only.
var reasons = []struct {
	says, advice string
	mend         bool // waiting does not help
}{
	{"x509: certificate signed by unknown authority",
		"the parameter ca names the file with the certificates that are trusted", true},
	{"x509: ", "the certificate of the member is for another host, or has expired; the parameter servername says for whom it is", true},
	{"first record does not look like a TLS handshake", "the member does not speak TLS: etcd:// instead of etcds://",
		true},
	{"error reading server preface: http2: ", "another kind of server listens there: correct the port", false},
	{"tls: certificate required", "the member wants a client's certificate: the parameters cert and key", true},
	{"tls: bad certificate", "the member refuses the client's certificate", true},
	// A member that is being stopped says so as well.
	{"authentication handshake failed: EOF", "does the member speak TLS? Without, it is etcd:// instead of etcds://",
		false},
	{"authentication handshake failed: connection reset by peer",
		"does the member speak TLS? Without, it is etcd:// instead of etcds://", false},
	{"error reading server preface: EOF", "does the member want TLS? Then it is etcds:// instead of etcd://", false},
	{"error reading server preface: connection reset by peer",
		"does the member want TLS? Then it is etcds:// instead of etcd://", false}, // the same, by chance
}

// judge returns what is known of an error.
func judge(err error) (v verdict, known bool) {
	if err == nil {
		return v, false
	}
	text := rpctypes.ErrorDesc(err)
	for _, v := range verdicts {
		if said := rpctypes.ErrorDesc(v.err); text == said || strings.HasSuffix(text, ": "+said) {
			return v, true
		}
	}
	return verdict{}, false
}

// is reports whether a server has said so.
func is(err, said error) bool {
	return err != nil && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(said)
}

// tokenGone reports whether a request was refused, and not carried out, for a token of
// authentication that has ended. The library has asked for a new token, and sent nothing with it,
// since it sends everything once.
func tokenGone(err error) bool {
	v, known := judge(err)
	return known && (v.err == rpctypes.ErrGRPCInvalidAuthToken || v.err == rpctypes.ErrGRPCAuthOldRevision)
}

// describe says what a person can do, and marks what waiting does not mend. The error
// matches that of the context if that is done.
func describe(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if v, known := judge(err); known {
		if err = engine.Explain(err, v.advice, v.mend); v.nothing {
			err = node.NotSent(err)
		}
	}
	text := err.Error()
	for _, r := range reasons {
		if strings.Contains(text, r.says) {
			err = engine.Explain(err, r.advice, r.mend)
			break
		}
	}
	return engine.Contextual(engine.Explain(err, "", false), ctx)
}

// hangs reports whether an error may be the member's own fault, so that another one is
// to be asked from now on.
func hangs(err error) bool {
	code := status.Code(err)
	if said := (rpctypes.EtcdError{}); errors.As(err, &said) {
		code = said.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}
