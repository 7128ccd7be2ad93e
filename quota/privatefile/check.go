package privatefile

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// rules modify the checks of a file.
type rules struct {
	secret bool // only its owner may read it
	links  bool // it may be a symbolic link
}

// maxLinks is how many symbolic links a path may go through.
const maxLinks = 40

// checker collects what is unsafe about files and the folders that lead
// to them.
type checker struct {
	rules
	us           uint32
	trusted      []uint32 // us, root, and the user of TrustVariable
	trustedAbove []uint32 // owners allowed for the folders above a file's own
	group        int64    // the group of GroupVariable, or -1

	folders  map[string]string // checked folders, without links in their paths
	shared   map[string]bool   // the folders in which every user may create files
	closed   map[string]bool   // the folders that only trusted users can reach
	findings []Finding
}

func newChecker() (*checker, error) {
	c := &checker{us: uint32(os.Geteuid()), group: -1, folders: map[string]string{}, shared: map[string]bool{}, closed: map[string]bool{}}
	c.trusted = []uint32{c.us, 0}
	if text := os.Getenv(TrustVariable); text != "" {
		uid, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: %s=%q is not the number of a user; set it to one, as id -u prints it", ErrUnsafe, TrustVariable, text)
		}
		c.trusted = append(c.trusted, uint32(uid))
	}
	if text := os.Getenv(GroupVariable); text != "" {
		gid, err := strconv.ParseUint(text, 10, 32)
		if err != nil || gid == 0 {
			return nil, fmt.Errorf("%w: %s=%q is not the number of a group; set it to one, as getent group prints it, but not to 0", ErrUnsafe, GroupVariable, text)
		}
		c.group = int64(gid)
	}
	return c, nil
}

// isShared reports whether a file or folder belongs to the group
// of GroupVariable.
func (c *checker) isShared(o owner) bool { return hasOwners && int64(o.gid) == c.group }

// err returns the findings as an *Error, or nil.
func (c *checker) err() error {
	if len(c.findings) == 0 {
		return nil
	}
	return &Error{Findings: slices.Clone(c.findings)}
}

// safe returns the path that a check has resolved, or the check's error, or
// the findings.
func (c *checker) safe(resolved string, err error) (string, error) {
	if err == nil {
		err = c.err()
	}
	return resolved, err
}

func (c *checker) report(f Finding) {
	if !slices.Contains(c.findings, f) {
		c.findings = append(c.findings, f)
	}
}

// checkPath checks a file and its folder, without opening the file.
func (c *checker) checkPath(path string) error {
	resolved, err := c.resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return withPath(err, path)
	}
	c.checkFile(path, info)
	return nil
}

// resolve checks the folders that lead to a file and returns its path without
// symbolic links.
func (c *checker) resolve(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil || path == "" {
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	folder, err := c.checkFolder(filepath.Dir(whole))
	if err != nil {
		return "", err
	}
	resolved := filepath.Join(folder, filepath.Base(whole))
	if !c.links {
		return resolved, nil
	}
	for range maxLinks {
		info, err := os.Lstat(resolved)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return resolved, nil
		}
		c.checkLink(resolved, info)
		target, err := os.Readlink(resolved)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(folder, target)
		}
		if folder, err = c.checkFolder(filepath.Dir(target)); err != nil {
			return "", err
		}
		resolved = filepath.Join(folder, filepath.Base(target))
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// checkFolder checks a folder and those above it, and returns its path without
// symbolic links.
func (c *checker) checkFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if resolved, ok := c.folders[dir]; ok {
		return resolved, nil
	}
	resolved := dir
	if hasOwners {
		if resolved, err = c.walk(dir); err != nil {
			return "", withPath(err, dir)
		}
	}
	c.folders[dir] = resolved
	return resolved, nil
}

// walk goes from the root to dir, one name at a time, so that it sees each link
// and its owner.
func (c *checker) walk(dir string) (string, error) {
	root := filepath.VolumeName(dir) + string(filepath.Separator)
	at, rest := root, split(dir[len(root):])
	links := 0
	passed := map[string]fs.FileInfo{}
	for {
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "open", Path: dir, Err: syscall.ELOOP}
			}
			c.checkLink(at, info)
			target, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(target) {
				at = root
			}
			rest = append(split(target), rest...)
		case !info.IsDir():
			return "", &fs.PathError{Op: "open", Path: at, Err: syscall.ENOTDIR}
		default:
			if at == root {
				c.trustedAbove = append(slices.Clone(c.trusted), ownerOf(info).uid)
			}
			passed[at] = info
		}
		if len(rest) == 0 {
			break
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(passed)) { // parents first
		c.closed[name] = passed[name].Mode().Perm()&0o011 == 0 || c.closed[filepath.Dir(name)]
		if name != at {
			c.checkAncestor(name, passed[name])
		}
	}
	c.checkParent(at, passed[at])
	return at, nil
}

// split returns the names in a path, without empty ones and ".". It keeps "..",
// which filepath.Join resolves correctly once walk has resolved the links.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), func(name string) bool { return name == "" || name == "." })
}

// checkParent checks the folder that contains the file. Its group may write to
// it if a folder above it keeps the group out, as with a umask of 002 in a home
// folder of mode 0700.
func (c *checker) checkParent(path string, info fs.FileInfo) {
	o, mode := ownerOf(info), info.Mode()
	c.shared[path] = mode&fs.ModeSticky != 0 && mode.Perm()&0o022 != 0
	if !slices.Contains(c.trusted, o.uid) && !c.isShared(o) {
		c.report(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
	if c.closed[path] || c.isShared(o) {
		mode &^= 0o020
	}
	if !c.shared[path] && othersMayWrite(mode, o) {
		c.report(Finding{Path: path, Problem: Writeable, Mode: info.Mode().Perm()})
	}
}

// checkAncestor checks a folder further up. The group of one of root's may
// write to it, as to /usr/local on Debian.
func (c *checker) checkAncestor(path string, info fs.FileInfo) {
	o, mode := ownerOf(info), info.Mode()
	if !slices.Contains(c.trustedAbove, o.uid) && !c.isShared(o) {
		c.report(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
	if o.uid == 0 || c.closed[path] || c.isShared(o) {
		mode &^= 0o020
	}
	if mode&fs.ModeSticky == 0 && othersMayWrite(mode, o) {
		c.report(Finding{Path: path, Problem: Writeable, Mode: info.Mode().Perm()})
	}
}

// checkLink checks the owner of a symbolic link on the way to a file.
func (c *checker) checkLink(path string, info fs.FileInfo) {
	if o := ownerOf(info); hasOwners && !slices.Contains(append(c.trustedAbove, c.trusted...), o.uid) {
		c.report(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
}

func (c *checker) checkFile(path string, info fs.FileInfo) {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		c.report(Finding{Path: path, Problem: Link})
		return
	case !info.Mode().IsRegular():
		c.report(Finding{Path: path, Problem: NotRegular})
		return
	case !hasOwners:
		return
	}
	o, mode := ownerOf(info), info.Mode().Perm()
	// In a folder that all users share, the owner may be outside of the group.
	isShared := c.isShared(o) && !c.shared[c.folderOf(path)]
	if !slices.Contains(c.trusted, o.uid) && !isShared {
		c.report(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
	if othersMayWrite(mode, o) && !(isShared && mode&0o002 == 0) {
		c.report(Finding{Path: path, Problem: Writeable, Mode: mode})
	}
	if o.links > 1 && c.shared[c.folderOf(path)] { // another user may have made the second link
		c.report(Finding{Path: path, Problem: Linked})
	}
	allowed := fs.FileMode(0o700)
	if o.uid == 0 && c.us != 0 {
		allowed |= 0o050
	}
	if c.secret && mode&^allowed&0o044 != 0 && !c.closed[c.folderOf(path)] {
		c.report(Finding{Path: path, Problem: Readable, Mode: mode})
	}
}

// folderOf returns the folder of a resolved file, without links in its path.
func (c *checker) folderOf(path string) string {
	whole, _ := filepath.Abs(path) // it did not fail before
	return c.folders[filepath.Dir(whole)]
}

// othersMayWrite reports whether other users than the owner may write. A
// group of the owner's own, which systems with a umask of 002 rely on, does
// not count.
func othersMayWrite(mode fs.FileMode, o owner) bool {
	return mode&0o002 != 0 || mode&0o020 != 0 && !ownGroup(o)
}

// HasOtherNames reports whether a file has several names (hard links).
func HasOtherNames(info fs.FileInfo) bool { return hasOwners && ownerOf(info).links > 1 }
