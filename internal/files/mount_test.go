package files

import (
	"path/filepath"
	"testing"
)

// TestANetworkIsNotTakenForADisk: SQLite on a cluster's file system lets two
// hosts spend the same units.
func TestANetworkIsNotTakenForADisk(t *testing.T) {
	const mounts = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
		"40 22 0:35 / /mnt/other\\040one rw shared:1 - fuse.sshfs me@host:/data rw\n" +
		"41 22 0:36 / /home rw shared:2 master:3 - fuse.fuse-overlayfs fuse-overlayfs rw\n" +
		"42 22 0:37 / /home/ration.db rw - ext4 /dev/sdb1 rw\n" +
		"43 22 0:38 / /mnt/disk rw - ext4 /dev/sdc1 rw\n" +
		"44 43 0:39 / /mnt/disk rw - nfs4 host:/data rw\n"
	for path, want := range map[string]struct {
		point   string
		network bool
	}{
		"/mnt": {"/", false}, "/mnt/other one/ration.db": {"/mnt/other one", true}, "/mnt/other": {"/", false},
		"/home/ration.db": {"/home/ration.db", false}, "/home/x": {"/home", false},
		"/mnt/disk/a/b": {"/mnt/disk", true},
	} {
		if point, kind := mountOf(mounts, path); point != want.point || isNetwork(kind) != want.network {
			t.Errorf("%s is in %s, of type %s; want %s, network: %t", path, point, kind, want.point, want.network)
		}
	}
	if dir := t.TempDir(); OnNetwork(filepath.Join(dir, "none", "of", "them")) || IsMounted(dir) {
		t.Error("a folder for tests is on the network, or mounted")
	}
}
