//go:build !unix

package privatefile

import "io/fs"

// hasOwners is false because files have no Unix owner and mode.
const hasOwners = false

const noFollow = 0

type owner struct {
	uid, gid uint32
	links    uint64
}

func ownerOf(fs.FileInfo) owner { return owner{} }

func ownGroup(owner) bool { return true }
