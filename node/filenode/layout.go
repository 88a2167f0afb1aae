//go:build linux || darwin || freebsd

package filenode

import "github.com/fenlock/fenlock/node"

// Where things are in the file: two copies of the header, a page each, and then, for each level,
// two copies of each room.

const (
	page    = 4096
	rooms   = 256
	roomsAt = 2 * page // where they begin

	// head is the size of what a copy begins with: checksum of the head, sequence, level, length and
	// checksum of the body, epoch.
	head = 32
)

// sizes of a copy, by its level: the smallest that the room fits in is used. The head of each copy
// is in the place of level 0, and so is the body of that level.
var sizes = [...]int64{page, 16 * page, 1024 * page}

// roomsEnd is the end of level 0, and the least size of a file that was not cut off.
const roomsEnd = roomsAt + rooms*2*page

// copyAt returns where a copy of a room is.
func copyAt(level, room, which int) int64 {
	at := int64(roomsAt)
	for _, size := range sizes[:level] {
		at += rooms * 2 * size
	}
	return at + (int64(room)*2+int64(which))*sizes[level]
}

// bodyAt returns where the body of a copy is: at level 0 behind its head.
func bodyAt(level, room, which int) int64 {
	if level == 0 {
		return copyAt(0, room, which) + head
	}
	return copyAt(level, room, which)
}

// roomOf returns the room of a name.
func roomOf(name string) int { return node.Stripe(name) % rooms }
