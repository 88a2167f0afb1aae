package history

import (
	"encoding/binary"
	"strings"
)

// readers are the tenures that share a name. The set can be compared, as states must be, so it is a
// text with their ids in order.
type readers string

func reader(id int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(id))) }

// at returns where an id is, or where it belongs.
func (r readers) at(id string) (i int) {
	for i < len(r) && string(r[i:i+len(id)]) < id {
		i += len(id)
	}
	return i
}

func (r readers) have(id int) bool {
	text := reader(id)
	return strings.HasPrefix(string(r[r.at(text):]), text)
}

func (r readers) with(id int) readers {
	text := reader(id)
	i := r.at(text)
	return r[:i] + readers(text) + r[i:]
}

// without returns those but one, all if that is not there.
func (r readers) without(id int) readers {
	text := reader(id)
	i := r.at(text)
	return r[:i] + readers(strings.TrimPrefix(string(r[i:]), text))
}
