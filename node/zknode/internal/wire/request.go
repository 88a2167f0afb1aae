package wire

import "encoding/binary"

// Opcodes (org.apache.zookeeper.ZooDefs.OpCode).
const (
	opCreate   = 1
	opDelete   = 2
	opGet      = 4
	opSet      = 5
	opSync     = 9
	opPing     = 11
	opChildren = 8
	opCheck    = 13
	opMulti    = 14
	opAuth     = 100
	opClose    = -11
	opError    = -1
)

// Xids of messages that are no answers to numbered requests.
const (
	XidEvent = -1
	XidPing  = -2
	XidAuth  = -4
)

// Any is the version that every version is.
const Any = -1

// Request is an operation of the protocol.
type Request interface {
	code() int32
	put([]byte) []byte
	// read reads the answer's body.
	read(*reader, *Reply)
}

type (
	// Create makes a znode.
	Create struct {
		Path      string
		Data      []byte
		ACL       ACL
		Ephemeral bool
	}
	// Delete removes a znode of this version, without children.
	Delete struct {
		Path    string
		Version int32
	}
	// Set changes the data of a znode of this version.
	Set struct {
		Path    string
		Data    []byte
		Version int32
	}
	// Check, in a Multi only, fails unless the znode has this version.
	Check struct {
		Path    string
		Version int32
	}
	// Get reads a znode, and with Watch asks for one event when it changes.
	Get struct {
		Path  string
		Watch bool
	}
	// Children lists the names of a znode's children.
	Children struct{ Path string }
	// Sync has what follows read what the leader had committed.
	Sync struct{ Path string }
	// Multi carries out all of its operations or none.
	Multi []Request
	// Ping keeps the session alive.
	Ping struct{}
	// Close ends the session.
	Close struct{}
	// Auth says who this is.
	Auth struct{ Scheme, Credentials string }
)

// ACL is who may do what.
type ACL []Permission

// Permission is one entry of an ACL.
type Permission struct {
	Perms      int32
	Scheme, ID string
}

// All are all permissions (read, write, create, delete, admin).
const All = 31

func (Create) code() int32   { return opCreate }
func (Delete) code() int32   { return opDelete }
func (Set) code() int32      { return opSet }
func (Check) code() int32    { return opCheck }
func (Get) code() int32      { return opGet }
func (Children) code() int32 { return opChildren }
func (Sync) code() int32     { return opSync }
func (Multi) code() int32    { return opMulti }
func (Ping) code() int32     { return opPing }
func (Close) code() int32    { return opClose }
func (Auth) code() int32     { return opAuth }

func (r Create) put(b []byte) []byte {
	b = putBytes(putString(b, r.Path), r.Data)
	b = putInt(b, int32(len(r.ACL)))
	for _, p := range r.ACL {
		b = putString(putString(putInt(b, p.Perms), p.Scheme), p.ID)
	}
	flags := int32(0)
	if r.Ephemeral {
		flags = 1
	}
	return putInt(b, flags)
}
func (r Delete) put(b []byte) []byte { return putInt(putString(b, r.Path), r.Version) }
func (r Set) put(b []byte) []byte    { return putInt(putBytes(putString(b, r.Path), r.Data), r.Version) }
func (r Check) put(b []byte) []byte  { return putInt(putString(b, r.Path), r.Version) }
func (r Get) put(b []byte) []byte    { return putBool(putString(b, r.Path), r.Watch) }
func (r Children) put(b []byte) []byte {
	return putBool(putString(b, r.Path), false)
}
func (r Sync) put(b []byte) []byte { return putString(b, r.Path) }
func (r Multi) put(b []byte) []byte {
	for _, op := range r {
		b = op.put(putInt(putBool(putInt(b, op.code()), false), -1))
	}
	return putInt(putBool(putInt(b, -1), true), -1)
}
func (Ping) put(b []byte) []byte  { return b }
func (Close) put(b []byte) []byte { return b }
func (r Auth) put(b []byte) []byte {
	return putString(putString(putInt(b, 0), r.Scheme), r.Credentials)
}

// Append appends a request with its length.
func Append(b []byte, xid int32, r Request) []byte {
	start := len(b)
	b = r.put(putInt(putInt(append(b, 0, 0, 0, 0), xid), r.code()))
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// Connect begins a session, or goes on with one.
type Connect struct {
	LastZxid int64
	Timeout  int32 // ms
	Session  int64 // 0: a new session
	Password []byte
}

// AppendConnect appends a request to connect with its length.
func AppendConnect(b []byte, c Connect) []byte {
	start := len(b)
	b = putInt(append(b, 0, 0, 0, 0), 0)
	b = putInt(putLong(b, c.LastZxid), c.Timeout)
	password := c.Password
	if password == nil {
		password = make([]byte, 16)
	}
	b = putBool(putBytes(putLong(b, c.Session), password), false) // not content with a read-only server
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}
