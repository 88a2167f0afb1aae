package draw

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestLogUniform(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	decades := make(map[string]int)
	for range 3000 {
		d := LogUniform(rng, time.Millisecond, time.Second)
		if d < time.Millisecond || d > time.Second {
			t.Fatal(d)
		}
		decades[fmt.Sprint(len(fmt.Sprint(d.Milliseconds())))]++
	}
	for digits, n := range decades {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 3000 have %s digits", n, digits)
		}
	}
}
