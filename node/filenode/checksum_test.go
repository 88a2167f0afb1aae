//go:build linux || darwin || freebsd

package filenode

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// The checksums are CRC-32C, of one part or several.
func TestChecksum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	table := crc32.MakeTable(crc32.Castagnoli)
	for range 1000 {
		b := make([]byte, random.IntN(300))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		cut := random.IntN(len(b) + 1)
		if got, want := sum(b[:cut], b[cut:]), crc32.Checksum(b, table); got != want || sum(b) != want {
			t.Fatalf("%08x and %08x of %d bytes, cut at %d; crc32 has %08x", got, sum(b), len(b), cut, want)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	of := make([]byte, 32<<10)
	b.SetBytes(int64(len(of)))
	for b.Loop() {
		sum(of)
	}
}
