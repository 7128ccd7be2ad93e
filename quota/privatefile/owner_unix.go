//go:build unix

package privatefile

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// hasOwners is true because files have an owner and a mode.
const hasOwners = true

// noFollow makes open fail on a symbolic link and not block on a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// owner is the user and group of a file, and its number of hard links.
type owner struct {
	uid, gid uint32
	links    uint64
}

func ownerOf(info fs.FileInfo) owner {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{uid: ^uint32(0), gid: ^uint32(0), links: 1}
	}
	return owner{st.Uid, st.Gid, uint64(st.Nlink)}
}

// ownGroup reports whether a file's group has the owner's number and, according
// to /etc, no other member. It is false for root, because containers that run
// under arbitrary users give them group 0.
func ownGroup(o owner) bool {
	if o.uid == 0 || o.gid != o.uid {
		return false
	}
	name := ""
	for _, fields := range readFields("/etc/passwd", 4) {
		switch uid, gid := fields[2], fields[3]; {
		case equals(uid, o.uid):
			name = fields[0]
		case equals(gid, o.gid):
			return false
		}
	}
	for _, fields := range readFields("/etc/group", 4) {
		if !equals(fields[2], o.gid) || fields[3] == "" {
			continue
		}
		for member := range strings.SplitSeq(fields[3], ",") {
			if member != name {
				return false
			}
		}
	}
	return true
}

func equals(text string, id uint32) bool { return text == strconv.FormatUint(uint64(id), 10) }

// readFields returns the fields of each line with at least n fields. It returns
// nil if it cannot read the file.
func readFields(path string, n int) (all [][]string) {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) >= n {
			all = append(all, fields)
		}
	}
	return all
}
