package engine_test

import (
	"fmt"
	"log"

	"github.com/fenlock/fenlock/node/engine"
)

// The URL of a node that is reached through an address which its certificate does not have.
func ExampleForm_Parse() {
	form := engine.Form{
		Engine: "valkeynode", Example: "valkey://user:password@host",
		Schemes: []string{"valkey"}, Secure: []string{"valkeys"}, Port: "6379",
	}
	u, err := form.Parse("valkeys://10.0.0.1?servername=locks.example.com")
	if err != nil {
		log.Fatal(err)
	}
	config, err := u.TLSConfig()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(u.Hosts, config.ServerName, config.InsecureSkipVerify)
	_, err = form.Parse("valkey://user:secret@10.0.0.1?tls=on")
	fmt.Println(err)
	// Output:
	// [10.0.0.1:6379] locks.example.com false
	// fenlock: invalid argument: the node's URL valkey://10.0.0.1:6379: there is no parameter "tls": known are name, passwordfile, ca, cert, key, servername, db, witness, sentineluser, sentinelpasswordfile
}
