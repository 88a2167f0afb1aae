//go:build linux || darwin || freebsd

package filenode

import (
	"encoding/binary"
	"sync"
)

// The checksums are CRC-32C. Package crc32 prepares the processor's instructions for it in 170 µs,
// a twentieth of what a locked command costs that does nothing. And it makes tables of another
// polynomial when a program starts. In this time the tables here check more than most programs
// read.

// castagnoli is the polynomial, reversed.
const castagnoli = 0x82f63b78

// tables are those of "slicing by 8", made in 3 µs.
var tables = sync.OnceValue(func() *[8][256]uint32 {
	var t [8][256]uint32
	for i := range t[0] {
		sum := uint32(i)
		for range 8 {
			sum = sum>>1 ^ castagnoli*(sum&1)
		}
		t[0][i] = sum
	}
	for i, sum := range t[0] {
		for k := 1; k < len(t); k++ {
			sum = t[0][sum&0xff] ^ sum>>8
			t[k][i] = sum
		}
	}
	return &t
})

// sum returns the checksum of parts that follow each other, as crc32.Update has it.
func sum(parts ...[]byte) uint32 {
	t, crc := tables(), ^uint32(0)
	for _, b := range parts {
		for ; len(b) >= 8; b = b[8:] {
			crc ^= binary.LittleEndian.Uint32(b)
			crc = t[7][crc&0xff] ^ t[6][crc>>8&0xff] ^ t[5][crc>>16&0xff] ^ t[4][crc>>24] ^
				t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
		}
		for _, c := range b {
			crc = t[0][byte(crc)^c] ^ crc>>8
		}
	}
	return ^crc
}
