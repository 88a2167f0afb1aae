package wire

import "bytes"

// Reply is the answer to a request. Of the fields below Err, those are set that the
// request asks for.
type Reply struct {
	Zxid     int64 // of the last transaction that the server has applied
	Err      Code
	Data     []byte
	Stat     Stat
	Children []string
	// Results of a Multi, one for each operation. If one has failed, none was carried
	// out, and Err is its code, and Failed its index.
	Results []Result
	Failed  int
}

// Result is that of one operation of a Multi that was carried out.
type Result struct{ Stat Stat } // of a Set

// Stat is what a server keeps about a znode.
type Stat struct {
	Czxid, Mzxid   int64
	Ctime, Mtime   int64 // ms since 1970, on the wall clock of the leader of that time
	Version        int32
	EphemeralOwner int64 // the session's id; 0: it is not ephemeral
	NumChildren    int32
}

// Header is what a message from a server begins with.
type Header struct {
	Xid  int32
	Zxid int64
	Err  Code
}

// ReadHeader reads the header of a message, and returns what follows.
func ReadHeader(message []byte) (h Header, body []byte, err error) {
	r := reader{rest: message}
	h = Header{r.int(), r.long(), Code(r.int())}
	return h, r.rest, r.err
}

// Read reads the answer to a request.
func Read(h Header, body []byte, to Request) (Reply, error) {
	reply := Reply{Zxid: h.Zxid, Err: h.Err}
	if h.Err != OK {
		return reply, nil
	}
	r := reader{rest: body}
	to.read(&r, &reply)
	return reply, r.err
}

// ReadEvent reads an event's body. It returns which znode has changed that is watched.
func ReadEvent(body []byte) (path string, err error) {
	r := reader{rest: body}
	r.int() // type
	r.int() // state
	path = r.string()
	return path, r.err
}

// Connected is the answer to a Connect.
type Connected struct {
	Timeout  int32
	Session  int64 // 0: the session that was asked for has expired
	Password []byte
	ReadOnly bool
}

// ReadConnected reads the answer to a Connect.
func ReadConnected(message []byte) (Connected, error) {
	r := reader{rest: message}
	r.int() // protocol version
	c := Connected{Timeout: r.int(), Session: r.long(), Password: bytes.Clone(r.bytes())}
	if r.err == nil && len(r.rest) > 0 {
		c.ReadOnly = r.bool()
	}
	return c, r.err
}

func (r *reader) stat() (s Stat) {
	s.Czxid, s.Mzxid, s.Ctime, s.Mtime = r.long(), r.long(), r.long(), r.long()
	s.Version = r.int()
	r.int() // of the children
	r.int() // of the ACL
	s.EphemeralOwner = r.long()
	r.int() // length of the data
	s.NumChildren = r.int()
	r.long() // when a child came or went last
	return s
}

func (Create) read(r *reader, _ *Reply)  { r.string() }
func (Delete) read(*reader, *Reply)      {}
func (Check) read(*reader, *Reply)       {}
func (Sync) read(r *reader, _ *Reply)    { r.string() }
func (Ping) read(*reader, *Reply)        {}
func (Close) read(*reader, *Reply)       {}
func (Auth) read(*reader, *Reply)        {}
func (Set) read(r *reader, reply *Reply) { reply.Stat = r.stat() }
func (Get) read(r *reader, reply *Reply) {
	reply.Data = bytes.Clone(r.bytes())
	reply.Stat = r.stat()
}

func (Children) read(r *reader, reply *Reply) {
	for range r.count(4) {
		reply.Children = append(reply.Children, r.string())
	}
}

func (m Multi) read(r *reader, reply *Reply) {
	reply.Results = make([]Result, len(m))
	for i, op := range m {
		kind, done := r.int(), r.bool()
		r.int()
		switch {
		case r.err != nil || done:
			r.err = ErrMalformed
			return
		case kind == opError:
			// Those before the one that failed have OK, those after it another code.
			if code := Code(r.int()); code != OK && reply.Err == OK {
				reply.Err, reply.Failed = code, i
			}
		case kind != op.code():
			r.err = ErrMalformed
			return
		default:
			one := Reply{}
			op.read(r, &one)
			reply.Results[i] = Result{one.Stat}
		}
	}
	if kind, done := r.int(), r.bool(); kind != -1 || !done {
		r.err = ErrMalformed
	}
}
