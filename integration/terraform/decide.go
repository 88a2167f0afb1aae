package fenlockterraform

import (
	"net/http"
	"slices"
)

// maxReleased is how many IDs that are over a record keeps. A request that was long on its way, behind a proxy or in a server that
// was paused, comes seconds or minutes late: there are no more turns in that time.
const maxReleased = 32

// decision changes a record, and says what the client is told, and whether it has changed anything. A request may come
// twice, when its answer was lost: then it is answered as before.
type decision func(r *Record) (a *answer, changes bool)

func lock(id string, lockInfo []byte) decision {
	return func(r *Record) (*answer, bool) {
		switch {
		case r.LockID == id:
			return accepted, false
		case r.LockID != "":
			return asJSON(http.StatusLocked, r.Lock), false
		case slices.Contains(r.Released, id): // it was on its way for long: nobody would unlock it again
			return released(id), false
		}
		r.Lock, r.LockID = lockInfo, id
		return accepted, true
	}
}

// unlock with an empty id is Terraform's force-unlock.
func unlock(id string) decision {
	return func(r *Record) (*answer, bool) {
		switch {
		case r.LockID == "":
			return accepted, false
		case id != "" && id != r.LockID:
			return asJSON(http.StatusLocked, r.Lock), false
		}
		r.Released = append(slices.Clone(r.Released[max(0, len(r.Released)+1-maxReleased):]), r.LockID)
		r.Lock, r.LockID = nil, ""
		return accepted, true
	}
}

// write replaces the state, or with nil removes it.
func write(id string, state []byte) decision {
	return func(r *Record) (*answer, bool) {
		switch {
		case id == r.LockID && len(state) == 0 && len(r.State) == 0:
			return accepted, false
		case id == r.LockID:
			r.State = state
			return accepted, true
		case r.LockID == "":
			return released(id), false
		}
		return asJSON(http.StatusLocked, r.Lock), false
	}
}
