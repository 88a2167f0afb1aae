package cas_test

import (
	"fmt"

	"github.com/fenlock/fenlock/node/cas"
)

// A value that another version of fenlock has written is refused, by its first line.
func ExampleParseRecord() {
	r, err := cas.ParseRecord(cas.Record{Register: 7}.Bytes())
	fmt.Println(r.Register, err)
	_, err = cas.ParseRecord([]byte("fenlock record 9\n..."))
	fmt.Println(err)
	// Output:
	// 7 <nil>
	// misconfigured: it has the format "fenlock record 9", and this program knows fenlock record 1: use one version of fenlock
}
