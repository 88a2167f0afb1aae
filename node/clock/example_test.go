package clock_test

import (
	"fmt"

	"github.com/fenlock/fenlock/node/clock"
)

func ExampleNow() {
	start := clock.Now()
	elapsed := clock.Now() - start // suspended time included, whatever the wall clock is set to
	fmt.Println(elapsed >= 0)
	// Output: true
}
