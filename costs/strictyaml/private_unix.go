//go:build unix

package strictyaml

import (
	"io/fs"
	"syscall"
)

// othersMayWrite reports whether anybody but the owner may write to a file. A
// group of the owner's own number is the owner's own group, which systems with
// a umask of 002 rely on.
func othersMayWrite(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o002 != 0 {
		return true
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return mode&0o020 != 0 && !(ok && owner.Gid == owner.Uid && owner.Uid != 0)
}
