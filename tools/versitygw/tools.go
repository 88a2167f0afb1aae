// Package versitygw has the version of Versity's S3 gateway that tests start, as a tool of this
// module. It is a module of its own, and in no workspace, because the gateway requires more than
// all of fenlock does. To ask where it is builds it:
//
//	GOWORK=off go -C tools/versitygw tool -n github.com/versity/versitygw/cmd/versitygw
package versitygw
