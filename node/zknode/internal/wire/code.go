package wire

import "fmt"

// Code is an error code of ZooKeeper (org.apache.zookeeper.KeeperException.Code).
type Code int32

// The codes that fenlock tells apart.
const (
	OK               Code = 0
	SystemError      Code = -1
	MarshallingError Code = -5
	OperationTimeout Code = -7
	BadArguments     Code = -8
	NoNode           Code = -101
	NoAuth           Code = -102
	BadVersion       Code = -103
	NodeExists       Code = -110
	NotEmpty         Code = -111
	SessionExpired   Code = -112
	InvalidACL       Code = -114
	AuthFailed       Code = -115
	SessionMoved     Code = -118
	NotReadOnly      Code = -119
	LocalSession     Code = -120
	QuotaExceeded    Code = -125
	Throttled        Code = -127
)

var texts = map[Code]string{
	SystemError: "the server has an internal error", MarshallingError: "the server could not read the request",
	OperationTimeout: "it took the server too long", BadArguments: "the server calls the arguments bad",
	NoNode: "there is no such znode", NoAuth: "no permission", BadVersion: "the znode has changed",
	NodeExists: "the znode is there already",
	NotEmpty:   "the znode has children", SessionExpired: "the session has expired",
	InvalidACL: "the server refuses the ACL",
	AuthFailed: "the server refuses user and password", SessionMoved: "the session has moved to another server",
	NotReadOnly:   "the server is in read-only mode",
	LocalSession:  "the session is a local one, which cannot have leases (localSessionsUpgradingEnabled)",
	QuotaExceeded: "a quota is exceeded", Throttled: "the server is overloaded and dropped the request",
}

// Error returns what a code means.
func (c Code) Error() string {
	if text := texts[c]; text != "" {
		return text
	}
	return fmt.Sprintf("the server answers with the error code %d", int32(c))
}
