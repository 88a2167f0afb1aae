package fenlockterraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/fenlock/fenlock"
)

// answer is what a client is told.
type answer struct {
	status int
	kind   string
	body   []byte
}

func (a *answer) write(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", a.kind)
	if a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	w.Write(a.body) // an error means that the client is gone
}

func plainly(status int, text string) *answer {
	return &answer{status, "text/plain; charset=utf-8", []byte(text + "\n")}
}

// asJSON is a LockInfo, of which Terraform shows who has the lock, or a state.
func asJSON(status int, lock []byte) *answer { return &answer{status, "application/json", lock} }

var accepted = plainly(http.StatusOK, "OK")

// released is the answer to who comes with an ID that is over.
func released(id string) *answer {
	text, err := json.Marshal(map[string]string{"ID": id, "Info": fmt.Sprintf("the lock %s was released, by its holder or by force-unlock", id)})
	if err != nil {
		panic(err) // cannot be: they are texts
	}
	return asJSON(http.StatusConflict, text)
}

// unless is the answer to a request that did not work.
func unless(err error) *answer {
	for _, passes := range []error{ErrConflict, fenlock.ErrHeld, fenlock.ErrNoQuorum, fenlock.ErrLost, fenlock.ErrMaxHold, fenlock.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passes) {
			return plainly(http.StatusServiceUnavailable, err.Error())
		}
	}
	return plainly(http.StatusInternalServerError, err.Error())
}
