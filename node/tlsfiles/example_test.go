package tlsfiles_test

import (
	"fmt"
	"log"
	"net/url"

	"github.com/fenlock/fenlock/node/tlsfiles"
)

// The URL of a node that is reached through an address which its certificate does not have.
func ExampleConfig() {
	u, err := url.Parse("valkeys://10.0.0.1?servername=locks.example.com")
	if err != nil {
		log.Fatal(err)
	}
	config, err := tlsfiles.Config(u.Hostname(), u.Query())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.ServerName, config.InsecureSkipVerify)
	// Output: locks.example.com false
}
