//go:build !unix

package files

import "io/fs"

// hasOwners is false because files have no Unix owner and mode.
const hasOwners = false

const noFollow = 0

func ownerOf(fs.FileInfo) (user, group uint32) { return 0, 0 }

// HasOtherNames returns false: hard links are not known.
func HasOtherNames(fs.FileInfo) bool { return false }
