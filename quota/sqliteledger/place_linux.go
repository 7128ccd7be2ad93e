package sqliteledger

import (
	"path/filepath"
	"syscall"
)

// checkPlace refuses file systems of other hosts, known by their numbers in
// statfs(2): what SQLite's write-ahead log shares in memory does not reach
// across hosts (sqlite.org/wal.html, read 2026-11-20).
func (l *Ledger) checkPlace() error {
	var fs syscall.Statfs_t
	if syscall.Statfs(filepath.Dir(l.path), &fs) != nil {
		return nil // the folder is not there yet
	}
	switch uint32(fs.Type) {
	case 0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x5346414f, 0x00c36400: // NFS, CIFS, SMB2, SMB, AFS, Ceph
		return l.misconfigured("it lies on a network file system", "put it on a local disk, or share a redis ledger")
	}
	return nil
}
