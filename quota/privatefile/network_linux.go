package privatefile

import "syscall"

// OnNetwork reports whether path is on a network file system, where processes
// of other hosts may write. SQLite's write-ahead log is unsafe there
// (https://www.sqlite.org/wal.html). It returns false if that is not known: off
// Linux, and for a path that does not exist.
func OnNetwork(path string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(path, &fs) == nil && isNetwork(uint32(fs.Type)) // Type differs between architectures
}

// isNetwork knows the numbers of statfs(2).
func isNetwork(fs uint32) bool {
	switch fs {
	case 0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x5346414f, 0x73757245, 0x00c36400: // NFS, CIFS, SMB2, SMB, AFS, Coda, Ceph
		return true
	}
	return false
}
