package fencehttp_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencehttp"
)

// A service refuses the request of a client that was paused, and woke up too late.
func ExampleHandler() {
	var guard fence.Guard
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}", fencehttp.Handler(&guard,
		func(r *http.Request) string { return "orders/" + r.PathValue("id") },
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, _ := fencehttp.FromContext(r.Context())
			fmt.Fprintf(w, "written under %d", token)
		})))
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, token := range []fence.Token{33, 34, 33} { // of Lock.Token
		request, err := http.NewRequest(http.MethodPut, server.URL+"/orders/42", nil)
		if err != nil {
			log.Fatal(err)
		}
		fencehttp.SetToken(request, token)
		response, err := server.Client().Do(request)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(token, response.Status)
	}
	// Output:
	// 33 200 OK
	// 34 200 OK
	// 33 412 Precondition Failed
}
