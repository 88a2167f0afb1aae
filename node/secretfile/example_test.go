package secretfile_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fenlock/fenlock/node/secretfile"
)

func ExampleReadPassword() {
	folder, err := os.MkdirTemp("", "secret")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "password")
	if err := os.WriteFile(file, []byte("a secret\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	password, err := secretfile.ReadPassword(file)
	fmt.Printf("%q %v\n", password, err)
	if err := os.Chmod(file, 0o644); err != nil {
		log.Fatal(err)
	}
	_, err = secretfile.ReadPassword(file)
	fmt.Println("refused when others may read it:", err != nil)
	// Output:
	// "a secret" <nil>
	// refused when others may read it: true
}
