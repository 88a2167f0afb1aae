//go:build linux || darwin || freebsd

package filenode

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// The checksums are CRC-32C. For many bytes package crc32 has the processor's instructions, which
// it prepares in 170 µs. That is a twentieth of what a locked command costs that does nothing. In
// this time a program's own tables check 100 kB, which is more than most of them read.

// manyBytes are better checked by package crc32.
const manyBytes = 32 << 10

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// tables are those of "slicing by 8", made in 3 µs.
var tables = sync.OnceValue(func() *[8][256]uint32 {
	var t [8][256]uint32
	for i := range t[0] {
		sum := uint32(i)
		for range 8 {
			sum = sum>>1 ^ crc32.Castagnoli*(sum&1)
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

// sum returns the checksum of parts that follow each other.
func sum(parts ...[]byte) (crc uint32) {
	for _, b := range parts {
		if len(b) > manyBytes {
			crc = crc32.Update(crc, castagnoli(), b)
		} else {
			crc = update(crc, b)
		}
	}
	return crc
}

// update is crc32.Update, by tables.
func update(crc uint32, b []byte) uint32 {
	t := tables()
	crc = ^crc
	for ; len(b) >= 8; b = b[8:] {
		crc ^= binary.LittleEndian.Uint32(b)
		crc = t[7][crc&0xff] ^ t[6][crc>>8&0xff] ^ t[5][crc>>16&0xff] ^ t[4][crc>>24] ^
			t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
	}
	for _, c := range b {
		crc = t[0][byte(crc)^c] ^ crc>>8
	}
	return ^crc
}
