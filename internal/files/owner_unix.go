//go:build unix

package files

import (
	"io/fs"
	"syscall"
)

// hasOwners is true because files have an owner and a mode.
const hasOwners = true

// noFollow makes open fail on a symbolic link and not block on a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ownerOf returns the user and the group of a file.
func ownerOf(info fs.FileInfo) (user, group uint32) {
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid
}

// HasOtherNames reports whether a file has several names (hard links).
func HasOtherNames(info fs.FileInfo) bool { return info.Sys().(*syscall.Stat_t).Nlink > 1 }
