//go:build unix

package privatefile

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// hasOwners says that files have an owner and a mode here.
const hasOwners = true

// noFollow refuses a symbolic link, and does not wait for a pipe's other end.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// owner is whose a file is, and how many names it has.
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

// ownGroup reports whether a file's group is its owner's own: it has the
// owner's number and, as far as /etc says, no other member. Root's is not:
// containers that run under arbitrary users give them the group 0.
func ownGroup(o owner) bool {
	if o.uid == 0 || o.gid != o.uid {
		return false
	}
	name := ""
	for _, fields := range lines("/etc/passwd", 4) {
		switch uid, gid := fields[2], fields[3]; {
		case is(uid, o.uid):
			name = fields[0]
		case is(gid, o.gid):
			return false
		}
	}
	for _, fields := range lines("/etc/group", 4) {
		if !is(fields[2], o.gid) || fields[3] == "" {
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

func is(text string, number uint32) bool { return text == strconv.FormatUint(uint64(number), 10) }

// lines returns the fields of each line that has at least n, none if the file
// cannot be read.
func lines(path string, n int) (all [][]string) {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) >= n {
			all = append(all, fields)
		}
	}
	return all
}
