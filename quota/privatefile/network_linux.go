package privatefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OnNetwork reports whether path is on a network file system, where processes
// of other hosts may write. SQLite's write-ahead log is unsafe there
// (https://www.sqlite.org/wal.html). A path that does not exist is where the
// folder is in which it would be created. OnNetwork returns false if that is
// not known, as off Linux.
func OnNetwork(path string) bool {
	kind, device, err := fileSystemOf(path)
	switch {
	case err != nil:
		return false
	case kind != unix.FUSE_SUPER_MAGIC:
		return isNetwork(kind)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it, it is not known
	return isNetworkFUSE(fuseName(string(mounts), device))
}

// fileSystemOf returns the number and the device of the file system of a path,
// or of the nearest folder above it that exists.
func fileSystemOf(path string) (kind uint32, device string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return 0, "", err
	}
	var fs syscall.Statfs_t
	for err = syscall.Statfs(path, &fs); errors.Is(err, syscall.ENOENT); err = syscall.Statfs(path, &fs) {
		path = filepath.Dir(path)
	}
	var file syscall.Stat_t
	if err == nil {
		err = syscall.Stat(path, &file)
	}
	device = fmt.Sprintf("%d:%d", unix.Major(uint64(file.Dev)), unix.Minor(uint64(file.Dev))) // types differ between architectures
	return uint32(fs.Type), device, err
}

// isNetwork knows the numbers of statfs(2).
func isNetwork(fs uint32) bool {
	switch fs {
	case 0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x5346414f, 0x6b414653, 0x73757245, 0x00c36400: // NFS, CIFS, SMB2, SMB, AFS twice, Coda, Ceph
		return true
	case 0x0bd00bd0, 0x47504653, 0x19830326, 0x7461636f, 0x01161970, 0x20030528: // Lustre, GPFS, BeeGFS, OCFS2, GFS2, OrangeFS
		return true
	}
	return false
}

// fuseName returns the name of the FUSE file system on a device, by the text of
// /proc/self/mountinfo (proc(5)): sshfs for the type fuse.sshfs.
func fuseName(mounts, device string) string {
	for line := range strings.Lines(mounts) {
		mount, of, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(mount), strings.Fields(of)
		if len(fields) > 2 && fields[2] == device && len(kind) > 0 {
			_, name, _ := strings.Cut(kind[0], ".")
			return name
		}
	}
	return ""
}

// isNetworkFUSE knows the names of FUSE file systems.
func isNetworkFUSE(name string) bool {
	return slices.Contains([]string{"ceph-fuse", "ceph", "gcsfuse", "glusterfs", "juicefs", "mfs", "rclone", "s3fs", "seaweedfs", "sshfs"}, name)
}
