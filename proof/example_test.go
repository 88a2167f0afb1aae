package proof_test

import (
	"fmt"
	"io/fs"

	"github.com/fenlock/fenlock/proof"
)

// The models, for a program that evaluates them.
func Example() {
	names, err := fs.Glob(proof.Files, "*.model")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		fmt.Println(name)
	}
	// Output:
	// admission.model
	// groups.model
	// shared.model
	// time.model
	// tokens.model
	// witness.model
}
