package httplock_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/httplock"
	"github.com/fenlock/fenlock/node/memnode"
)

// The node is in memory, so that the example runs. In production all servers of the service have
// the same nodes, and the guard is in the database that they write to.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	var guard fence.Guard
	putOrder := func(w http.ResponseWriter, r *http.Request) {
		token, _ := httplock.FromContext(r.Context())
		err := guard.Do(r.Context(), r.URL.Path, token, func() error { return nil }) // it would write
		if errors.Is(err, fence.ErrStale) {
			http.Error(w, "the lock was lost", http.StatusServiceUnavailable)
		}
	}
	locked, err := httplock.New(locker, 5*time.Second, func(r *http.Request) string {
		return "orders/" + r.PathValue("id")
	}, http.HandlerFunc(putOrder))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}", locked)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("PUT", "/orders/42", strings.NewReader("{}")))
	fmt.Println(answer.Code)
	// Output: 200
}
