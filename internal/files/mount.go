package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// OnNetwork reports whether path is on a network file system, where processes
// of other hosts may write. SQLite's write-ahead log is unsafe there
// (https://www.sqlite.org/wal.html). A path that does not exist is where the
// folder is in which it would be created. OnNetwork returns false if that is
// not known, as off Linux.
func OnNetwork(path string) bool {
	path, _ = filepath.Abs(path) // of an error, nothing is known
	resolved, err := filepath.EvalSymlinks(path)
	for errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		resolved, err = filepath.EvalSymlinks(path)
	}
	_, kind := mountOf(mounts(), resolved)
	return isNetwork(kind)
}

// IsMounted reports whether a file is mounted by itself, as by docker run
// --volume with the path of a file. The files beside it are then others than
// where it was mounted from. It returns false if that is not known, as off
// Linux.
func IsMounted(path string) bool {
	path, _ = filepath.Abs(path)
	resolved, err := filepath.EvalSymlinks(path)
	point, _ := mountOf(mounts(), resolved)
	return err == nil && point == resolved
}

// mounts returns the mounts of this process, as proc(5) describes them.
func mounts() string {
	text, _ := os.ReadFile("/proc/self/mountinfo") // without it, none is known
	return string(text)
}

// mountOf returns where the file system of a path is mounted, and its type.
func mountOf(mounts, path string) (point, kind string) {
	for line := range strings.Lines(mounts) {
		mount, of, _ := strings.Cut(line, " - ")
		fields, types := strings.Fields(mount), strings.Fields(of)
		if len(fields) < 5 || len(types) == 0 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[4])
		isIn := path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")
		if isIn && len(at) >= len(point) { // the last of those at one path covers the others
			point, kind = at, types[0]
		}
	}
	return point, kind
}

// isNetwork knows the types of network and cluster file systems.
func isNetwork(kind string) bool {
	switch strings.TrimPrefix(kind, "fuse.") {
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs", "ocfs2", "gfs2",
		"pvfs2",
		"ceph-fuse", "gcsfuse", "glusterfs", "juicefs", "mfs", "rclone", "s3fs", "seaweedfs", "sshfs":
		return true
	}
	return false
}
