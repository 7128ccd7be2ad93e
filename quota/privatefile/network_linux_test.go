package privatefile

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNetworkIsTakenForADisk: SQLite on a cluster's file system lets two hosts
// spend the same units.
func TestNetworkIsTakenForADisk(t *testing.T) {
	for name, number := range map[string]uint32{"NFS": unix.NFS_SUPER_MAGIC, "AFS": unix.AFS_FS_MAGIC, "Ceph": unix.CEPH_SUPER_MAGIC,
		"OCFS2": unix.OCFS2_SUPER_MAGIC, "Lustre": 0x0bd00bd0, "GPFS": 0x47504653, "BeeGFS": 0x19830326, "GFS2": 0x01161970} {
		if !isNetwork(number) {
			t.Errorf("%s (%#x) is not a network file system", name, number)
		}
	}
	for name, number := range map[string]uint32{"ext4": unix.EXT4_SUPER_MAGIC, "Btrfs": unix.BTRFS_SUPER_MAGIC, "overlay": unix.OVERLAYFS_SUPER_MAGIC, "tmpfs": unix.TMPFS_MAGIC} {
		if isNetwork(number) {
			t.Errorf("%s (%#x) is a network file system", name, number)
		}
	}
	const mounts = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
		"40 22 0:35 / /mnt/other rw shared:1 - fuse.sshfs me@host:/data rw\n" +
		"41 22 0:36 / /home rw shared:2 master:3 - fuse.fuse-overlayfs fuse-overlayfs rw\n" +
		"42 22 0:37 / /mnt/disk rw - fuseblk /dev/sdb1 rw\n"
	for device, want := range map[string]bool{"8:1": false, "0:35": true, "0:36": false, "0:37": false, "0:3": false} {
		if isNetworkFUSE(fuseName(mounts, device)) != want {
			t.Errorf("device %s: %t; want %t", device, !want, want)
		}
	}
}

// TestFolderIsNotThereYet: a ledger in a folder that was still to be created
// was made on a network file system.
func TestFolderIsNotThereYet(t *testing.T) {
	for _, path := range []string{"/proc/self", "/proc/self/none", "/proc/self/none/of/them"} {
		if kind, device, err := fileSystemOf(path); kind != unix.PROC_SUPER_MAGIC || device == "" || err != nil {
			t.Errorf("%s: %#x on %s, %v; want that of /proc", path, kind, device, err)
		}
	}
	if OnNetwork(filepath.Join(t.TempDir(), "none")) {
		t.Error("a folder for tests is on the network")
	}
}
