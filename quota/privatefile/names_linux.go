package privatefile

import "golang.org/x/sys/unix"

// IsMounted reports whether a file is mounted by itself, as by docker run
// --volume with the path of a file. The files beside it are then others than
// where it was mounted from. It returns false if that is not known, as off
// Linux and before Linux 5.8.
func IsMounted(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &stat)
	return err == nil && stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
