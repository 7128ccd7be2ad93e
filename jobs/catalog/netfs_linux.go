package catalog

import "golang.org/x/sys/unix"

// onNetworkFS says whether a file lies where another host may write to it. What
// cannot be asked is taken for local.
func onNetworkFS(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false
	}
	return networkMagic(uint32(st.Type)) // its type differs between architectures
}

func networkMagic(fs uint32) bool {
	switch fs {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}
